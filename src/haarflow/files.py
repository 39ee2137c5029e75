"""Files that are whole or absent: nothing is ever half-written, and what a killed writer leaves is tidied."""

import contextlib
import os
import platform
import re
import secrets
import shutil
import time
import zlib
from pathlib import Path

from haarflow.errors import Refusal

DAY = 24 * 3600.0


def place_of(rule: str, path: str | Path, instead: str) -> Path:
    """The path of a file that can be written, in a folder that is there: said before the work, not after it."""
    place = Path(path)
    problem = _problem(place)
    if problem:
        raise Refusal(f"{rule} a file in a folder that exists; got {problem}. {instead}")
    return place


def _problem(place: Path) -> str:
    """Why a file cannot be written there, if it cannot."""
    if "\0" in str(place):
        return f"the name {str(place)[:40]!r}, which no file can have"
    try:
        if place.is_dir():
            return "a folder"
        if not place.parent.is_dir():
            return f"a file in {place.parent}, which is no folder"
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        return f"the name {str(place)[:40]!r} ({(error.strerror or str(error)).lower()})"
    return "" if os.access(place.parent, os.W_OK) else f"a file in {place.parent}, which cannot be written"


def write_whole(path: Path, content: bytes):
    """Put the content at the path in one move: readers see the old file or the new one, never a part."""
    tidy_leftovers(path)
    temporary = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:  # may be read as any new file: those of tempfile are private
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def tidy_leftovers(path: Path) -> None:
    """Remove what writers of this path that were killed have left beside it; those that still write are left alone."""
    with contextlib.suppress(OSError):
        for other in path.parent.iterdir():
            if other.name.startswith(f".{path.name}.") and _is_stale(other):
                other.unlink(missing_ok=True)


def _is_stale(temporary: Path) -> bool:
    """Whether its writer, a process of this machine, has ended; of one elsewhere, whether a day has gone."""
    writer = re.search(r"\.([0-9a-f]{8})-(\d+)-\w+$", temporary.name)
    if writer is None or writer[1] != _machine() or os.name != "posix":
        return time.time() - temporary.stat().st_mtime > DAY
    try:
        os.kill(int(writer[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"
