"""Many experiments through a few workers: parts first come first served, finished ones never run again."""

import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import judge, ledger, machine, workers
from haarflow.runs.config import command_of
from haarflow.runs.experiment import Experiment
from haarflow.runs.progress import Silent


@dataclass
class Job:
    """An experiment with its config, a seed, and the folder of its record."""

    experiment: Experiment
    seed: int
    home: Path
    label: str
    left: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def config(self) -> str:
        """The config as JSON, which is what travels to the workers."""
        return self.experiment.model_dump_json()


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its record, or the sentence that says why there is none."""

    name: str
    record: ledger.Record | None = None
    problem: Exception | None = None


def job(experiment: Experiment, seed: int, out: Path, label: str = "") -> Job:
    """The job whose record goes to OUT/<name>/<digest>; it is called by its label, if not by its name."""
    facts = judge.identity(experiment, seed)
    return Job(experiment, seed, out / facts["experiment"] / facts["digest"], label or experiment.name)


def sweep(
    jobs: list[Job],
    *,
    count: int = workers.WORKERS,
    watch: Silent | None = None,
    after: Callable[[Outcome], None] = lambda outcome: None,
    crew: Any = None,
) -> list[Outcome]:
    """Run the jobs on `count` worker processes (0: in this one) or by another crew; `after` hears each one end."""
    watch = watch or Silent()
    outcomes: dict[str, Outcome] = {}

    def ended(job: Job, record: ledger.Record | None, problem: Exception | None, words: str) -> None:
        outcomes[str(job.home)] = Outcome(job.label, record, problem)
        watch.end(job.label, words)
        after(outcomes[str(job.home)])

    with contextlib.ExitStack() as stack:
        tasks: deque[tuple[Job, str | None]] = deque()
        for job in {str(job.home): job for job in jobs}.values():
            if not ledger.finished(job.home):
                stack.enter_context(ledger.lock(job.home, lambda job=job: watch.note(_busy(job))))
            try:
                record = _begin(job, watch)
            except Refusal as problem:
                ended(job, None, problem, str(problem))
                continue
            if record:
                ended(job, record, None, "already recorded")
            else:
                tasks += [(job, part) for part in job.experiment.parts() if part in job.left] or [(job, None)]
        if tasks:
            crew = stack.enter_context(crew or workers.Crew(count, watch.moved))
            _work(tasks, crew, watch, ended)
    return [outcomes[str(job.home)] for job in jobs]


def _begin(job: Job, watch: Silent) -> ledger.Record | None:
    """The record if there is one; else which parts are left."""
    ledger.tidy(job.home)
    if ledger.finished(job.home):
        record = ledger.read(job.home)
        record.arrays()
        return record
    parts, versions = job.experiment.parts(), machine.versions()
    if len(set(parts)) != len(parts) or not parts:
        raise Refusal(f"The parts of {job.name} have different names, at least one; got {parts}.")
    for part in parts:
        kept = ledger.read_part(job.home, part, versions)
        if isinstance(kept, str):
            watch.note(f"{job.label}: the part {part!r} runs again, because {kept}.")
        if not isinstance(kept, tuple):
            job.left.add(part)
    watch.begin(job.label, len(parts), len(parts) - len(job.left))
    return None


def _work(tasks: deque, crew: Any, watch: Silent, ended: Callable[..., None]) -> None:
    """Keep every worker busy until no task is left; a job's last part is followed by its conclusion."""
    running: dict[Future, tuple[Job, str | None]] = {}
    failed: set[str] = set()
    while tasks or running:
        while tasks and len(running) < crew.slots:
            job, part = tasks.popleft()
            if str(job.home) not in failed:
                running[_submit(crew, job, part)] = (job, part)
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            job, part = running.pop(future)
            problem = future.exception()
            if isinstance(problem, BrokenProcessPool):
                raise workers.Stopped(_death([(job, part), *running.values()])) from None
            if problem is not None and str(job.home) not in failed:
                failed.add(str(job.home))
                ended(job, None, problem, "stopped")
            elif problem is None and part is None:
                record = ledger.read(job.home)
                ended(job, record, None, "holds" if record.holds else "does not hold")
            elif problem is None:
                watch.done(job.label, str(part))
                job.left.discard(str(part))
                if not job.left:
                    tasks.appendleft((job, None))


def _submit(crew: Any, job: Job, part: str | None) -> Future:
    if part is None:
        return crew.finish(job.name, job.config, job.seed, job.home, command_of(job.experiment, job.seed))
    return crew.run_part(job.name, job.config, job.seed, part, job.home, job.label)


def _busy(job: Job) -> str:
    return f"{job.label}: another process is running this record; waiting for it."


def _death(tasks: list[tuple[Job, str | None]]) -> str:
    names = ", ".join(sorted({f"{job.label} ({part or 'gather'})" for job, part in tasks}))
    return (
        f"A worker process died while running {names}: killed from outside, or out of memory. "
        "Finished parts are kept: give the same command again, with --workers 1 if memory is short."
    )


def run(experiment: Experiment, *, seed: int = 0, out: Any = "results", count: int = workers.WORKERS) -> ledger.Record:
    """The record of one experiment, run now unless it exists; a sentence is raised if it cannot be made."""
    outcome = sweep([job(experiment, seed, Path(out))], count=count)[0]
    if outcome.record is None:
        raise outcome.problem or RuntimeError(f"{experiment.name} left no record")
    return outcome.record
