"""A sweep on Dask: parts run on the workers of a cluster and come back by the wire; records are written here.

Workers need the same versions and the experiment's file, but no common disk. A part whose worker dies is given to
another by Dask; what has come back is kept, whatever happens to the cluster.
"""

import contextlib
import traceback
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import catalogue, ledger, machine, workers
from haarflow.runs.source import source


@cache
def _ready() -> None:
    """A cluster's worker before its first part: as our own workers, one thread and float64."""
    machine.one_thread()
    machine.prepare()
    machine.heal_cache()


def far_part(name: str, config: str, seed: int, part: str) -> dict[str, Any]:
    """One part, on a worker of the cluster: packed, or why there is none."""
    _ready()
    try:
        arrays, measured = workers.compute(name, config, seed, part)
        return {"content": ledger.pack(arrays), "measured": measured}
    except Refusal as refusal:
        return {"refusal": str(refusal)}
    except (Exception, SystemExit) as error:
        return {"error": (type(error).__name__, str(error)), "trace": traceback.format_exc()}


class Cluster:
    """The workers of a Dask scheduler, by its address; without one, of a cluster of our own on this machine."""

    slots = 100_000  # Dask keeps the queue

    def __init__(self, count: int, scheduler: str | None, heard: Any):
        """Find the library; reach nobody yet."""
        try:
            import distributed
        except ImportError:
            raise Refusal(
                "The engine dask needs the package distributed, which is not installed. "
                "Write pip install 'haarflow[cluster]', or leave --engine local."
            ) from None
        self.dask, self.count, self.scheduler, self.heard = distributed, max(count, 1), scheduler, heard
        self.sent: set[Any] = set()

    def __enter__(self):
        """Reach the scheduler; one process of our own gathers and judges."""
        with contextlib.ExitStack() as stack:
            self.client = stack.enter_context(self._reached(stack))
            stack.callback(lambda: self.client.cancel(list(self.sent)))
            self.judges = stack.enter_context(workers.Crew(1, self.heard))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *reason: Any) -> None:
        """Take back what is not done, and leave."""
        self.stack.__exit__(*reason)

    def _reached(self, stack: contextlib.ExitStack) -> Any:
        if self.scheduler is None:
            options = {"dashboard_address": None, "memory_limit": 0, "silence_logs": "CRITICAL"}
            cluster = self.dask.LocalCluster(n_workers=self.count, threads_per_worker=1, processes=True, **options)
            return self.dask.Client(stack.enter_context(cluster))
        try:
            return self.dask.Client(self.scheduler, timeout=10)
        except (OSError, ValueError):
            raise Refusal(
                f"--scheduler is the address of a Dask scheduler; {self.scheduler} does not answer. "
                "Start one with `dask scheduler` and give the address it prints, such as tcp://host:8786."
            ) from None

    def run_part(self, name: str, config: str, seed: int, part: str, home: Path, label: str) -> Future:
        """Have one part run far away, and keep it here."""
        ours: Future = Future()
        theirs = self.client.submit(far_part, name, config, seed, part, pure=False, key=f"{label}: {part} {id(ours)}")
        self.sent.add(theirs)
        theirs.add_done_callback(lambda done: self._back(done, ours, name, part, home))
        return ours

    def finish(self, *arguments: Any) -> Future:
        """Have the parts of an experiment gathered and judged."""
        return self.judges.finish(*arguments)

    def _back(self, theirs: Any, ours: Future, name: str, part: str, home: Path) -> None:
        """What came back goes to the ledger; what went wrong becomes a sentence."""
        try:
            _keep(theirs.result(), name, part, home)
        except (Refusal, workers.Stopped) as problem:
            ours.set_exception(problem)
        except BaseException as error:
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            sentence = f"The cluster gave up the part {part!r} of {name} ({words}). Finished parts are kept:"
            ours.set_exception(workers.Stopped(f"{sentence} give the same command again."))
        else:
            ours.set_result(None)
        finally:
            self.sent.discard(theirs)


def _keep(answer: dict[str, Any], name: str, part: str, home: Path) -> None:
    if "refusal" in answer:
        raise Refusal(f"{name}: {answer['refusal']}")
    if "error" in answer:
        kind, words = answer["error"]
        raise workers.stopped(name, part, home, kind, words, answer["trace"])
    here, there = machine.versions(), answer["measured"]["versions"]
    if here != there:
        odd = next(word for word in here if here[word] != there.get(word))
        raise Refusal(
            f"The workers of a sweep have the versions of the machine that asks; got {odd} {there.get(odd)} there and "
            f"{here[odd]} here. Install the same on all."
        )
    if answer["measured"]["code"] != source(catalogue.load(name)).computes:
        raise Refusal(
            f"The workers of a sweep have the experiment's file of the machine that asks; that of {name} is another "
            "there. Copy the file, start the workers again and give the same command."
        )
    ledger.keep_part(home, part, answer["content"], **answer["measured"])
