"""Records on disk: written whole or not at all, checked when read, never computed twice.

A record is OUT/<name>/<digest>/ with record.json and arrays.npz, the same bytes whenever the same run is made with the
same versions; timing.json holds what differs from run to run. Finished parts wait in parts/ until the record is
complete. Records and parts say which code made them; by other code they are made anew. One process at a time works on a
record (an advisory lock that the system drops when its owner dies); where the file system has no locks the last writer
wins, with the same content.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.files import write_whole

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_TIME = {"compile": 0.0, "run": 0.0}


def canonical(value: Any) -> bytes:
    """The one JSON text of a value, for digests and checksums."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sha256(content: bytes) -> str:
    """The checksum used everywhere in the ledger."""
    return hashlib.sha256(content).hexdigest()


def digest(name: str, config: Mapping[str, Any], seed: int, version: int) -> str:
    """The name of a record's folder: what was asked, and nothing of how or where it was run."""
    asked = {"experiment": name, "config": dict(config), "seed": seed, "version": version}
    return sha256(canonical(asked))[:16]


def pack(arrays: Mapping[str, Any]) -> bytes:
    """The arrays as the bytes of an .npz file, the same bytes for the same arrays."""
    import numpy as np

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            array = np.asarray(arrays[name])
            if array.dtype.hasobject:
                raise Refusal(f"A record holds arrays of numbers; {name!r} is {type(arrays[name]).__name__}.")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, Any]:
    """The arrays of an .npz file."""
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def folder(path: Path) -> Path:
    """The folder, made if need be, or a refusal that says why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refusal(path, error) from error
    return path


def write(path: Path, content: bytes) -> None:
    """Put the content at the path at once: a reader sees the old file or the new one, never a half."""
    folder(path.parent)
    try:
        write_whole(path, content)
        path.chmod(0o644)
        _sync_folder(path.parent)
    except OSError as error:
        raise _refusal(path.parent, error) from error


def write_json(path: Path, value: Any) -> None:
    """Put readable JSON at the path, at once."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write(path, f"{text}\n".encode())


@dataclass(frozen=True)
class Record:
    """A finished run, as read from its folder; the arrays are read when asked for."""

    path: Path
    facts: dict[str, Any]
    timing: dict[str, Any]

    def __repr__(self) -> str:
        """Which run it is, how many of its claims hold, and where it lies."""
        verdicts = self.facts["verdicts"].values()
        return (
            f"Record of {self.facts['experiment']}, seed {self.facts['seed']}: {sum(verdicts)} of {len(verdicts)} "
            f"claims hold ({self.path})"
        )

    def __getattr__(self, name: str) -> Any:
        """A fact by its name: experiment, claim, config, verdicts, numbers and so on."""
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def holds(self) -> bool:
        """Whether every verdict holds."""
        return all(self.facts["verdicts"].values())

    @property
    def seconds(self) -> dict[str, float]:
        """Compile and run seconds, apart."""
        return self.timing.get("seconds", NO_TIME)

    @property
    def memory(self) -> float | None:
        """MB that the largest worker process held at most, if that is known."""
        return max((size for size in self.timing.get("memory", {}).values() if size), default=None)

    def arrays(self) -> Any:
        """The data, checked against the record's checksum: arrays by name, their axes named, and the fits made of them.

        `record.arrays()["error"].sel(n=100)`, `np.asarray(...)`, `.to_pandas()`; see `haarflow.runs.named`.
        """
        path = self.path / "arrays.npz"
        content = _read(path)
        if content is None or sha256(content) != self.facts["arrays"]["sha256"]:
            raise _damaged(self.path, "arrays.npz is missing, truncated or changed")
        from haarflow.runs.named import Data, restored
        from haarflow.runs.statistics import Fit

        fits = {name: Fit.of(facts) for name, facts in self.facts["fits"].items()}
        return Data(restored(unpack(content), self.facts["axes"]), fits)

    def summary(self) -> dict[str, Any]:
        """What `--json` prints."""
        keys = ("experiment", "claim", "source", "config", "seed", "verdicts", "evidence", "numbers")
        measured = {"seconds": self.seconds, "memory": self.memory}
        return {**{key: self.facts[key] for key in keys}, **measured, "record": str(self.path)}


def read(path: Path) -> Record:
    """The record in a folder (or of its record.json), checked."""
    home = path.parent if path.name == "record.json" else path
    content = _read(home / "record.json")
    if content is None:
        raise Refusal(f"A record is a folder with a record.json; {path} has none. Make one with `haarflow run`.")
    try:
        facts = json.loads(content)
        checksum = facts.pop("checksum")
        intact = checksum == sha256(canonical(facts))
    except (ValueError, AttributeError, KeyError, TypeError):
        intact, facts = False, {}
    if not intact:
        raise _damaged(home, "record.json is truncated or was changed")
    return Record(home, facts, _timing(home))


def finished(home: Path) -> bool:
    """Whether a folder has a record: its record.json is written last."""
    return os.path.exists(home / "record.json")  # False too for a name that no file can have; writing says why


def find_records(out: Path) -> list[Path]:
    """The folders that hold a finished record, in order: `out` itself, or those of one or of many experiments below."""
    if (out / "record.json").is_file():
        return [out]
    return sorted(path.parent for depth in ("*", "*/*") for path in out.glob(f"{depth}/record.json"))


def write_record(home: Path, facts: dict[str, Any], arrays: Mapping[str, Any], timing: dict[str, Any]) -> Record:
    """Write the arrays, the timing and last the record.json that makes the record count; drop the parts."""
    content = pack(arrays)
    facts = {**facts, "arrays": {"sha256": sha256(content), "bytes": len(content)}}
    (home / "record.json").unlink(missing_ok=True)
    write(home / "arrays.npz", content)
    write_json(home / "timing.json", timing)
    write_json(home / "record.json", {**facts, "checksum": sha256(canonical(facts))})
    tidy(home)
    return read(home)


def part_path(home: Path, part: str) -> Path:
    """Where a finished part waits."""
    plain = "".join(letter if letter.isalnum() or letter in "-=." else "_" for letter in part)[:60]
    return home / "parts" / f"{plain}-{sha256(part.encode())[:8]}.part"


def write_part(home: Path, part: str, arrays: Mapping[str, Any], **facts: Any) -> None:
    """Keep a finished part."""
    keep_part(home, part, pack(arrays), **facts)


def keep_part(home: Path, part: str, content: bytes, **facts: Any) -> None:
    """Keep a part that is packed already: one line of JSON with its checksum, then the bytes of an .npz file."""
    facts = {"part": part, **facts}
    header = canonical({**facts, "sha256": sha256(canonical(facts) + content)})
    write(part_path(home, part), header + b"\n" + content)


def write_plan(home: Path, seed: int, parts: int) -> None:
    """Say how many parts there will be, to whoever watches the folder; it goes with the parts."""
    write_json(home / "parts" / "plan.json", {"seed": seed, "parts": parts})


def read_plan(home: Path) -> dict[str, int]:
    """What was said about the parts; nothing where it does not read as it was written."""
    with contextlib.suppress(ValueError, TypeError, KeyError, Refusal):
        found = json.loads(_read(home / "parts" / "plan.json") or b"{}")
        return {"seed": int(found["seed"]), "parts": int(found["parts"])}
    return {}


def read_part(
    home: Path, part: str, versions: Mapping[str, str], code: str
) -> tuple[dict[str, Any], dict[str, Any]] | str | None:
    """A part's header and arrays; or why it must be run again; or None when it has not been run."""
    whole = _read(part_path(home, part))
    if whole is None:
        return None
    header, _, content = whole.partition(b"\n")
    try:
        facts = json.loads(header)
        if facts.pop("sha256") != sha256(canonical(facts) + content) or facts["part"] != part:
            return "its file is truncated or was changed"
        if facts["versions"] != dict(versions):
            return "it was made by other versions"
        if facts["code"] != code:
            return "the experiment's code has changed since"
        return facts, unpack(content)
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        return "its file is truncated or was changed"


def tidy(home: Path, *, parts: bool = True) -> None:
    """Remove what a finished or killed run leaves: the parts of a finished record and half-written files."""
    leftovers = [*home.glob(".*.*"), *home.glob("parts/.*.*")]
    if parts and finished(home):
        shutil.rmtree(home / "parts", ignore_errors=True)
        leftovers.append(home / "failure.txt")
    for path in leftovers:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(home: Path, busy: Any = None) -> Iterator[None]:
    """Hold the record's lock; `busy()` is called once if another process holds it, and then we wait."""
    folder(home)
    try:
        file = open(home / ".lock", "ab")  # noqa: SIM115
    except OSError as error:
        raise _refusal(home, error) from error
    with file:
        if not _flock(file):
            if busy:
                busy()
            _flock(file, wait=True)
        yield


def busy(home: Path) -> bool:
    """Whether a process works on this record now, where the file system has locks."""
    try:
        with open(home / ".lock", "rb") as file:
            return not _flock(file)
    except OSError:
        return False


def tidy_unless_busy(home: Path) -> None:
    """Tidy a finished record, unless it cannot be written or somebody is making it anew."""
    with contextlib.suppress(OSError), open(home / ".lock", "ab") as file:
        if _flock(file):
            tidy(home)


def _flock(file: Any, *, wait: bool = False) -> bool:
    """Whether the lock is ours; where the system or the disk has no locks, the last writer wins."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refusal(f"haarflow reads {path}, but {_reason(error)}.") from error


def _timing(home: Path) -> dict[str, Any]:
    """What was measured; nothing of it where the file, which no checksum guards, does not read as it was written."""
    try:
        timing = json.loads(_read(home / "timing.json") or b"{}")
        seconds, memory = timing.get("seconds", NO_TIME), timing.get("memory", {})
        sizes = [seconds["compile"], seconds["run"], *seconds.values(), *filter(None, memory.values())]
        return timing if math.isfinite(math.fsum(sizes)) else {}
    except (ValueError, AttributeError, KeyError, TypeError, OverflowError):
        return {}


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _damaged(home: Path, what: str) -> Refusal:
    return Refusal(
        f"A finished record is never recomputed, but that of {home} is damaged: {what}. Delete {home} and run it again."
    )


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _refusal(path: Path, error: OSError) -> Refusal:
    if error.errno in FULL:
        return Refusal(
            f"The records of a run go to {path}, but the disk is full or a quota is reached. "
            "Free some space and give the same command again: finished parts are kept."
        )
    return Refusal(
        f"The records of a run go to {path}, but it cannot be written ({_reason(error)}). "
        "Choose another folder with --out."
    )
