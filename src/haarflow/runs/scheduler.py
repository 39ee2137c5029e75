"""Many experiments through a few workers: parts first come first served, finished ones never run again."""

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from haarflow.doors import Least, Most, Natural, door
from haarflow.errors import Refusal
from haarflow.files import tidy_leftovers
from haarflow.runs import cost, design, judge, ledger, machine, report, workers
from haarflow.runs.config import command_of
from haarflow.runs.experiment import Experiment
from haarflow.runs.judge import Standing
from haarflow.runs.source import source
from haarflow.runs.watchers import Silent


@dataclass
class Job:
    """An experiment with its config, a seed, and the folder of its record."""

    experiment: Experiment
    seed: int
    home: Path
    label: str
    force: bool = False
    left: set[str] = field(default_factory=set)
    recorded: bool = False
    anew: bool = False

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def config(self) -> str:
        """The config as JSON, which is what travels to the workers."""
        return self.experiment.model_dump_json()

    @cached_property
    def parts(self) -> list[str]:
        """The names of the pieces of the work."""
        try:
            return list(design.parts(self.experiment))
        except Refusal:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise Refusal(f"The design of {self.name} yields methods and their cells; it raised {words}.") from error


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its record, or the sentence that says why there is none."""

    name: str
    record: ledger.Record | None = None
    problem: Exception | None = None
    section: report.Section | None = None


def job(experiment: Experiment, seed: int, out: Path, label: str = "", *, force: bool = False) -> Job:
    """The job whose record goes to OUT/<name>/<digest>; it is called by its label, if not by its name.

    With `force` it is done although there is a record, and whatever it costs.
    """
    facts = experiment.identity(seed)
    home = out / facts["experiment"] / facts["digest"]
    if force or not ledger.finished(home):
        cost.refuse_unless_affordable(experiment, force=force)
    return Job(experiment, seed, home, label or experiment.name, force)


def schedule(
    jobs: list[Job],
    *,
    count: int = workers.WORKERS,
    watch: Silent | None = None,
    after: Callable[[Outcome], None] = lambda outcome: None,
    crew: Any = None,
    draw: bool = False,
) -> list[Outcome]:
    """Run the jobs on `count` worker processes (0: in this one) or by another crew; `after` hears each one end.

    With `draw` the outcomes have their sections of a report, drawn by whoever wrote the record.
    """
    watch = watch or Silent()
    outcomes: dict[str, Outcome] = {}
    machine.open_files(len(jobs))
    workers.refuse_too_many(count)
    for out in {job.home.parents[1] for job in jobs}:
        tidy_leftovers(out / report.NAME)

    def ended(job: Job, words: str, **found: Any) -> None:
        outcomes[str(job.home)] = Outcome(job.label, **found)
        watch.end(job.label, words)
        after(outcomes[str(job.home)])

    with contextlib.ExitStack() as stack:
        tasks: deque[tuple[Job, str | None]] = deque()
        to_draw: list[tuple[Job, str | None]] = []
        for job in {str(job.home): job for job in jobs}.values():
            try:
                record = None if job.force else _recorded(job)
                if record is None:
                    job.parts  # noqa: B018  refused before anything is made
                    stack.enter_context(ledger.lock(job.home, lambda job=job: watch.note(_busy(job))))
                    record = _begin(job, watch)
            except Refusal as problem:
                ended(job, "refused", problem=problem)
                continue
            job.recorded = record is not None
            if record and draw:
                to_draw.append((job, None))
            elif record:
                ended(job, "already recorded", record=record)
            else:
                tasks += [(job, part) for part in job.parts if part in job.left] or [(job, None)]
        tasks += to_draw
        if tasks:
            crew = stack.enter_context(crew or workers.Crew(count, watch.moved))
            _work(tasks, crew, watch, ended, draw)
    return [outcomes[str(job.home)] for job in jobs]


def _recorded(job: Job) -> ledger.Record | None:
    """The record if there is one that says what the experiment would say now."""
    if not ledger.finished(job.home):
        return None
    record = ledger.read(job.home)
    record.arrays()
    if judge.standing(job.experiment, record) is not Standing.CURRENT:
        return None
    ledger.tidy_unless_busy(job.home)
    return record


def _begin(job: Job, watch: Silent) -> ledger.Record | None:
    """With the lock held: the record if there is one after all, or else which parts are left to compute.

    Parts beside a finished record are those of a run that makes it anew and was interrupted.
    """
    record = None if job.force else _recorded(job)
    if record is not None:
        return record
    ledger.tidy(job.home, parts=False)
    if ledger.finished(job.home) and not job.force:
        stands = judge.standing(job.experiment, ledger.read(job.home))
        what = "judged" if stands is Standing.TO_JUDGE else "computed"
        watch.note(f"{job.label}: {what} again, because the experiment's code has changed since its record was made.")
        if stands is Standing.TO_JUDGE:
            return None
    job.anew = True
    code, versions = source(type(job.experiment)).computes, machine.versions()
    for part in job.parts:
        kept = ledger.read_part(job.home, part, versions, code)
        if isinstance(kept, str):
            watch.note(f"{job.label}: the part {part!r} runs again, because {kept}.")
        if not isinstance(kept, tuple):
            job.left.add(part)
    ledger.write_plan(job.home, job.seed, len(job.parts))
    watch.begin(job.label, len(job.parts), len(job.parts) - len(job.left))
    return None


def _work(tasks: deque, crew: Any, watch: Silent, ended: Callable[..., None], draw: bool) -> None:
    """Keep every worker busy until no task is left; a job's last part is followed by its conclusion."""
    running: dict[Future, tuple[Job, str | None]] = {}
    failed: set[str] = set()
    while tasks or running:
        while tasks and len(running) < crew.slots:
            job, part = tasks.popleft()
            if str(job.home) not in failed:
                running[_submit(crew, job, part, draw)] = (job, part)
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            job, part = running.pop(future)
            problem = future.exception()
            if isinstance(problem, BrokenProcessPool):
                raise workers.Stopped(_death([(job, part), *running.values()])) from None
            if problem is not None and str(job.home) not in failed:
                failed.add(str(job.home))
                ended(job, "stopped", problem=problem)
            elif problem is None and part is None:
                record = ledger.read(job.home)
                words = "already recorded" if job.recorded else "holds" if record.holds else "does not hold"
                ended(job, words, record=record, section=future.result())
            elif problem is None:
                watch.done(job.label, str(part))
                job.left.discard(str(part))
                if not job.left:
                    tasks.appendleft((job, None))


def _submit(crew: Any, job: Job, part: str | None, draw: bool) -> Future:
    if part is None:
        command = command_of(job.experiment, job.seed)
        return crew.finish(job.name, job.config, job.seed, job.home, command, draw, job.anew)
    return crew.run_part(job.name, job.config, job.seed, part, job.home, job.label)


def _busy(job: Job) -> str:
    return f"{job.label}: another process is running this record; waiting for it."


def _death(tasks: list[tuple[Job, str | None]]) -> str:
    names = ", ".join(sorted({f"{job.label} ({part or 'gather'})" for job, part in tasks}))
    return (
        f"A worker process died while running {names}: killed from outside, or out of memory. "
        "Finished parts are kept: give the same command again, with --workers 1 if memory is short."
    )


@door
def run(
    experiment: Experiment,
    *,
    seed: Annotated[int, Least(0), Most(2**63 - 1)] = 0,
    out: str | os.PathLike = "results",
    count: Natural = workers.WORKERS,
    force: bool = False,
) -> ledger.Record:
    """The record of one experiment, run now unless it exists; a sentence is raised if it cannot be made."""
    outcome = schedule([job(experiment, seed, Path(out), force=force)], count=count)[0]
    if outcome.record is None:
        raise outcome.problem or RuntimeError(f"{experiment.name} left no record")
    return outcome.record
