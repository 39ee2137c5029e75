"""From the parts of a run to its record: gather, verdicts, figures."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from haarflow.doors import said
from haarflow.errors import Refusal
from haarflow.runs import ledger, machine
from haarflow.runs.experiment import Check, Experiment


def conclude(experiment: Experiment, seed: int, home: Path, command: str) -> ledger.Record:
    """Gather the kept parts, judge them and write the record."""
    versions = machine.versions()
    pieces, seconds, memory = {}, {}, {}
    for part in experiment.parts():
        kept = ledger.read_part(home, part, versions)
        if not isinstance(kept, tuple):
            raise Refusal(f"the part {part!r} is missing; give the same command again.")
        pieces[part], seconds[part], memory[part] = kept[1], kept[0]["seconds"], kept[0].get("memory")
    with machine.Stopwatch() as watch:
        data = dict(experiment.gather(pieces))
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


def identity(experiment: Experiment, seed: int) -> dict[str, Any]:
    """What was asked, and the digest that names it."""
    config = experiment.model_dump(mode="json")
    return {
        "experiment": experiment.name,
        "group": experiment.group,
        **experiment.words(),
        "config": config,
        "seed": seed,
        "version": experiment.version,
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
