"""Where a flow keeps its place: one file, replaced whole, that a killed flow resumes from to the bit."""

import json
import time
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np

from haarflow.dynamics.shards import whole
from haarflow.errors import Refusal
from haarflow.files import place_of, write_whole
from haarflow.identity import Unidentified, digest

_SECONDS = 2.0  # between saves


class Checkpoint:
    """The saved place of one flow; without a path, a place that is never saved."""

    def __init__(self, path: str | Path | None, identity: Any):
        self.path = None if path is None else place_of("A checkpoint is", path, "Make the folder, or name a file.")
        self.digest = "" if path is None else _identity(identity)
        self.saved_at = time.monotonic()

    @property
    def found(self) -> bool:
        """Whether there is something to resume from."""
        return self.path is not None and self.path.exists()

    def due(self, *, last: bool) -> bool:
        """Whether the last save was long enough ago, or this is the end."""
        return self.path is not None and (last or time.monotonic() - self.saved_at > _SECONDS)

    def save(self, at: int, state: Any, rows: list):
        """Keep this place; of several processes, the first one writes."""
        arrays: dict[str, Any] = {f"state/{i}": whole(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        lanes = list(state.lanes)
        for i, (step, when, values) in enumerate(rows):
            arrays |= {f"row/{i}/step": np.asarray(step), f"row/{i}/time": when}
            for lane, probes in values.items():  # by their numbers: names may hold any letter
                arrays |= {f"row/{i}/value/{lanes.index(lane)}/{name}": value for name, value in probes.items()}
        told = [[lanes.index(lane) for lane in values] for _, _, values in rows]
        about = {"digest": self.digest, "at": at, "rows": told, "lanes": lanes}
        buffer = BytesIO()
        np.savez(buffer, about=np.asarray(json.dumps(about)), **arrays)
        if self.path is not None and jax.process_index() == 0:
            try:
                write_whole(self.path, buffer.getvalue())
            except OSError as error:
                raise Refusal(
                    f"A checkpoint is a file that can be written; got {self.path}: {error.strerror or error}. "
                    "Check the folder and the disk; what was saved before is kept."
                ) from None
        self.saved_at = time.monotonic()

    def load(self, like: Any) -> tuple[int, Any, list]:
        """The step, the state and the rows that were saved; `like` is a state of the same shape."""
        assert self.path is not None
        try:
            with np.load(BytesIO(self.path.read_bytes()), allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(str(arrays.pop("about")))
            rows = [self._row(arrays, i, about["lanes"], told) for i, told in enumerate(about["rows"])]
        except (OSError, ValueError, TypeError, EOFError, KeyError, BadZipFile, NotImplementedError, zlib.error):
            raise Refusal(
                f"A checkpoint is the file a flow wrote; got {self.path}, which does not read as one. "
                "Delete it to start again."
            ) from None
        if about["digest"] != self.digest:
            raise Refusal(
                f"A checkpoint resumes the flow that wrote it; got {self.path} from a flow with another field, scheme, "
                "cloud, key, dt, schedule, probe or number of steps. Delete it, or name another file."
            )
        leaves, tree = jax.tree.flatten(like)
        state = jax.tree.unflatten(tree, [jax.numpy.asarray(arrays[f"state/{i}"]) for i in range(len(leaves))])
        return about["at"], state, rows

    @staticmethod
    def _row(arrays: dict[str, np.ndarray], i: int, lanes: list[str], told: list[int]):
        values = {lanes[number]: {} for number in told}
        for name, value in arrays.items():
            if name.startswith(f"row/{i}/value/"):
                number, probe = name.removeprefix(f"row/{i}/value/").split("/", 1)
                values[lanes[int(number)]][probe] = value
        return int(arrays[f"row/{i}/step"]), arrays[f"row/{i}/time"], values


def _identity(things: Any) -> str:
    try:
        return digest(things)
    except Unidentified as refusal:
        raise Refusal(f"A flow with a checkpoint must be told apart from others. {refusal}") from None
