"""Worker processes: each runs one part at a time, in float64, on one thread, and dies with its parent."""

import contextlib
import io
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from haarflow.dynamics import progress
from haarflow.errors import Refusal
from haarflow.runs import machine
from haarflow.values import in_bytes, machine_memory

WORKERS = 2
AT_REST = 3e8  # bytes of a worker that has loaded its libraries and nothing else


class Stopped(RuntimeError):
    """A run that could not finish, in one sentence that says what to do."""


def run_part(name: str, config: str, seed: int, part: str, home: Path, label: str) -> None:
    """Run one part of an experiment and keep its arrays in the record's folder; progress goes by the label."""
    from haarflow.runs import ledger

    progress.listen(lambda fraction, text: _say(label, part, fraction, text))
    progress.say(progress.COMPILING)
    with _guard(name, part, home):
        arrays, measured = compute(name, config, seed, part)
    progress.listen(None)
    ledger.write_part(home, part, arrays, **measured)
    machine.forget_programs()


def compute(name: str, config: str, seed: int, part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of one part, and what was measured on the way."""
    import jax

    from haarflow.runs import catalogue, design
    from haarflow.runs.source import source

    machine.forget_peak()
    with machine.Stopwatch() as watch:
        experiment = catalogue.load(name).model_validate_json(config)
        arrays, axes = design.compute(experiment, jax.random.key(seed), part)
    made = {"axes": axes, "versions": machine.versions(), "code": source(type(experiment)).computes}
    return arrays, {"seconds": watch.seconds, "memory": machine.peak_memory(), **made}


def finish(name: str, config: str, seed: int, home: Path, command: str, draw: bool, anew: bool) -> Any:
    """Unless it is there, write the record: gather the parts and judge them; its section of the report, if asked.

    A record by other code is judged again, or made `anew` from the parts.
    """
    from haarflow.runs import catalogue, judge, ledger, report

    with _guard(name, "gather", home):
        experiment = catalogue.load(name).model_validate_json(config)
        if anew or not ledger.finished(home):
            record = judge.conclude(experiment, seed, home, command)
        else:
            record = ledger.read(home)
            if judge.standing(experiment, record) is judge.Standing.TO_JUDGE:
                record = judge.judge_again(experiment, record)
    return report.section(record) if draw else None


@contextlib.contextmanager
def _guard(name: str, part: str, home: Path):
    """Let refusals through; keep the traceback of anything else in the record's folder."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(f"{name}: {refusal}") from None
    except (Exception, SystemExit) as error:
        raise stopped(name, part, home, type(error).__name__, str(error), traceback.format_exc()) from None


def stopped(name: str, part: str, home: Path, kind: str, words: str, trace: str) -> Stopped:
    """The sentence for a part that went wrong; its traceback is kept in the record's folder."""
    from haarflow.runs import ledger

    path = home / "failure.txt"
    ledger.write(path, trace.encode())
    words = " ".join(words.split())[:200].rstrip(".")
    return Stopped(
        f"The experiment {name} stopped in {part!r} with {kind}: {words or 'no words'}. "
        f"The traceback is in {path}; mend the cause and give the same command again."
    )


class Inline(Executor):
    """Runs each task at once, in this process: for debugging and for tests."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """A future that is already decided."""
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def refuse_too_many(count: int, what: str = "workers") -> None:
    """Refuse a number of processes that would not fit into memory, before any has begun."""
    if count > WORKERS and count * AT_REST > machine_memory():
        raise Refusal(
            f"The {what} of a run fit into memory, {in_bytes(float(machine_memory()))}; {count} of them would need "
            f"{in_bytes(count * AT_REST)} before they compute anything. Write --{what} {os.cpu_count() or WORKERS}."
        )


class Crew:
    """A few worker processes, and a thread that hears what they tell; none at all for workers=0."""

    def __init__(self, workers: int, heard: Callable[[str, str, float, str], None]):
        """Hire nobody yet."""
        self.workers, self.heard = workers, heard

    def __enter__(self):
        """Hire."""
        self.before = set(multiprocessing.active_children())
        if self.workers == 0:
            machine.prepare()
            _speak(self.heard)
            self.pool: Executor = Inline()
            return self
        context = multiprocessing.get_context("spawn")
        self.queue = context.Queue()
        self.pool = ProcessPoolExecutor(self.workers, context, _begin, (self.queue,))
        self.over = threading.Event()
        self.ear = threading.Thread(target=self._hear, daemon=True)
        self.ear.start()
        return self

    def __exit__(self, kind: Any, *reason: Any) -> None:
        """Let them go; at once when something went wrong."""
        if self.workers == 0:
            _speak(None)
            return
        if kind is not None:
            for child in set(multiprocessing.active_children()) - self.before:
                child.kill()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.over.set()
        self.ear.join(timeout=1.0)

    @property
    def slots(self) -> int:
        """How many tasks are given out at a time."""
        return max(self.workers, 1)

    def run_part(self, *arguments: Any) -> Future:
        """Have one part run, and kept."""
        return self.pool.submit(run_part, *arguments)

    def finish(self, *arguments: Any) -> Future:
        """Have the parts of an experiment gathered and judged."""
        return self.pool.submit(finish, *arguments)

    def _hear(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(queue.Empty):
                self.heard(*self.queue.get(timeout=0.1))


class Plain(io.FileIO):
    """A worker's standard error: never a terminal, so that no library draws bars over ours."""

    def isatty(self) -> bool:
        """No."""
        return False


_speaker: Callable[..., None] | None = None


def _speak(speaker: Callable[..., None] | None) -> None:
    global _speaker
    _speaker = speaker


def _say(*message: Any) -> None:
    if _speaker is not None:
        _speaker(*message)


def _begin(messages: Any) -> None:
    """A worker's first act: one thread, deaf to Ctrl-C (its parent hears it), gone when its parent is."""
    machine.one_thread()
    sys.stderr = io.TextIOWrapper(Plain(os.dup(2), "w"), line_buffering=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    messages.cancel_join_thread()
    _speak(lambda *message: messages.put(message))
    machine.prepare()
    machine.heal_cache()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
