"""From the parts of a run to its record: gather, verdicts, figures."""

import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from haarflow.doors import said
from haarflow.errors import Refusal
from haarflow.runs import ledger, machine
from haarflow.runs.experiment import Check, Experiment
from haarflow.runs.source import source


def conclude(experiment: Experiment, seed: int, home: Path, command: str) -> ledger.Record:
    """Gather the kept parts, judge them and write the record."""
    versions = machine.versions()
    pieces, seconds, memory = {}, {}, {}
    for part in experiment.parts():
        kept = ledger.read_part(home, part, versions, source(type(experiment)).computes)
        if not isinstance(kept, tuple):
            raise Refusal(f"the part {part!r} is not there ({kept or 'missing'}). Give the same command again.")
        pieces[part], seconds[part], memory[part] = kept[1], kept[0]["seconds"], kept[0].get("memory")
    with machine.Stopwatch() as watch:
        data = _named("gather(pieces)", experiment.gather(pieces))
        judged = judgement(experiment, data)
    seconds["gather"] = watch.seconds
    facts = {
        **identity(experiment, seed),
        "command": command,
        **judged,
        "precision": "float64",
        "versions": versions,
    }
    total = {kind: round(math.fsum(part[kind] for part in seconds.values()), 4) for kind in ("compile", "run")}
    timing = {"seconds": total, "parts": seconds, "memory": memory, "machine": machine.facts()}
    return ledger.write_record(home, facts, data, timing)


def judge_again(experiment: Experiment, record: ledger.Record) -> ledger.Record:
    """The record with its data as they are, judged by the experiment as it is now."""
    data = record.arrays()
    facts = {**record.facts, **identity(experiment, record.seed), **judgement(experiment, data)}
    return ledger.write_record(record.path, facts, data, record.timing)


class Standing(Enum):
    """What a finished record is worth to the experiment as it is now."""

    CURRENT = "it says what the experiment would say"
    TO_JUDGE = "its data are those that the experiment would compute, its verdicts those of other code"
    TO_COMPUTE = "its data were computed by other code"


def standing(experiment: Experiment, record: ledger.Record) -> Standing:
    """Compare the code and the words of a record with those of the experiment."""
    now = identity(experiment, record.facts.get("seed", 0))
    if record.facts.get("code", {}).get("computes") != now["code"]["computes"]:
        return Standing.TO_COMPUTE
    same = all(record.facts.get(name) == fact for name, fact in now.items())
    return Standing.CURRENT if same else Standing.TO_JUDGE


def identity(experiment: Experiment, seed: int) -> dict[str, Any]:
    """What was asked of which code, and the digest that names what was asked."""
    config = experiment.model_dump(mode="json")
    return {
        "experiment": experiment.name,
        "group": experiment.group,
        **experiment.words(),
        "config": config,
        "seed": seed,
        "version": experiment.version,
        "code": source(type(experiment))._asdict(),
        "digest": ledger.digest(experiment.name, config, seed, experiment.version),
    }


def judgement(experiment: Experiment, data: dict[str, Any]) -> dict[str, Any]:
    """The verdicts as plain booleans, the number and bound behind each where it is known, and the figures."""
    verdicts = _named("verdict(data)", experiment.verdict(data))
    if not verdicts:
        raise Refusal("verdict(data) judges at least one claim; it gave none.")
    evidence = {
        claim: {"value": _number("verdict(data)", claim, verdict.value), "wanted": verdict.wanted}
        for claim, verdict in verdicts.items()
        if isinstance(verdict, Check)
    }
    figures = _named("figures(data)", experiment.figures(data))
    return {
        "verdicts": {claim: _truth(claim, verdict) for claim, verdict in verdicts.items()},
        "evidence": evidence,
        "figures": {name: _number("figures(data)", name, value) for name, value in figures.items()},
    }


def _truth(claim: str, verdict: Any) -> bool:
    import numpy as np

    holds = np.asarray(verdict.holds if isinstance(verdict, Check) else verdict)
    if holds.ndim:
        raise Refusal(f"a verdict is true or false; {claim!r} is an array. Write `.all()` or `.max() < bound`.")
    if holds.dtype != bool:
        raise Refusal(f"a verdict is true or false; {claim!r} is {said(verdict)}. Write a comparison, or below(...).")
    return bool(holds)


def _named(owner: str, found: Any) -> dict[str, Any]:
    """What an experiment gives by name, as a dictionary."""
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise Refusal(f"{owner} gives a dictionary with names in words; got {said(found)}.")
    return dict(found)


def _number(owner: str, name: str, value: Any) -> float | int | None:
    """A plain number; None stands for one that is not finite."""
    import numpy as np

    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "fiub":
        raise Refusal(f"{owner} gives one number for each name; {name!r} is {said(value)}.")
    number = value if isinstance(value, int) else float(found)
    return number if math.isfinite(number) else None
