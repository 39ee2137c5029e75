"""Contestants in processes of their own, driven a burst at a time, so that many can take turns within seconds.

The speed of a shared machine drifts by the minute: what is compared must alternate faster than that.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

T = TypeVar("T")
LEAST = 16  # steps of a burst: what comes before the first step must not count for much
BURSTS = 3  # whose median is the answer, where nothing else takes turns


class Failed(Exception):
    """A contestant that ended; the reason in a line."""


class Worker:
    """A contestant: `ready` for a case, then `burst` after burst of it."""

    def __init__(self, who: str, *, python: str = sys.executable, settings: dict | None = None):
        self.steps, self.peak_gb = LEAST, 0.0
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed on exit
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("measure.py")), who],
            env=os.environ | (settings or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()
        self._complaints.close()

    def ready(self, task: str, n: int, *, seconds: float) -> None:
        """Compiled, warm, and with so many steps in a burst that it takes about that many seconds."""
        self._ask({"task": task, "n": n})
        self._ask({"steps": LEAST})
        self.steps = LEAST
        while (spent := self._ask({"steps": self.steps})) < seconds / 2 and self.steps < 1_000_000:
            self.steps = max(self.steps * 2, min(self.steps * 50, int(self.steps * seconds / max(spent, 1e-6))))

    def begin(self) -> None:
        """Start a burst, and do not wait for it."""
        self._tell({"steps": self.steps})

    def end(self) -> float:
        """Seconds per step of the burst that was begun."""
        return self._hear() / self.steps

    def burst(self) -> float:
        """Seconds per step."""
        self.begin()
        return self.end()

    def _ask(self, order: dict) -> float:
        self._tell(order)
        return self._hear()

    def _tell(self, order: dict) -> None:
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(self._reason()) from None

    def _hear(self) -> float:
        for line in self._process.stdout or ():
            if line.startswith("{"):
                answer = json.loads(line)
                self.peak_gb = answer["peak_gb"]
                return answer["seconds"]
        raise Failed(self._reason())

    def _reason(self) -> str:
        self._process.wait()
        self._complaints.seek(0)
        return (self._complaints.read().strip().splitlines() or ["no reason given"])[-1]


def in_turn(workers: dict[str, Worker], act: Callable[[Worker], T], *, backwards: bool = False) -> dict[str, T]:
    """What each does, one after the other; a contestant that fails says why, and is left out from here on."""
    done = {}
    for name in list(workers)[:: -1 if backwards else 1]:
        try:
            done[name] = act(workers[name])
        except Failed as failed:
            print(f"  {name} failed, and is left out from here on: {failed}")
            del workers[name]
    return done


def measured(who: str, cases: list, *, seconds: float, settings: dict | None = None) -> list[dict]:
    """Cases one after the other in one process; one that fails says why, and leaves out those that follow."""
    lines = []
    with Worker(who, settings=settings) as worker:
        try:
            for task, n in cases:
                worker.ready(task, n, seconds=seconds)
                per_step = median(worker.burst() for _ in range(BURSTS))
                lines.append({"task": task, "n": n, "seconds": per_step, "peak_gb": worker.peak_gb})
        except Failed as failed:
            print(f"  {who} failed: {failed}")
    return lines
