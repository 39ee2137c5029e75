"""From the parts of a run to its record: gather the arrays, make the fits, judge the claims."""

import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import design, ledger, machine
from haarflow.runs.experiment import Claim, Data, Experiment, Named
from haarflow.runs.source import source
from haarflow.values import said


def conclude(experiment: Experiment, seed: int, home: Path, command: str) -> ledger.Record:
    """Gather the kept parts, judge them and write the record."""
    versions = machine.versions()
    pieces, seconds, memory = {}, {}, {}
    for part in design.parts(experiment):
        kept = ledger.read_part(home, part, versions, source(type(experiment)).computes)
        if not isinstance(kept, tuple):
            raise Refusal(f"the part {part!r} is not there ({kept or 'missing'}). Give the same command again.")
        pieces[part] = kept[1], kept[0].get("axes", {})
        seconds[part], memory[part] = kept[0]["seconds"], kept[0].get("memory")
    with machine.Stopwatch() as watch:
        data = design.gather(experiment, pieces)
        judged = judgement(experiment, data)
    seconds["gather"] = watch.seconds
    facts = {
        **experiment.identity(seed),
        "command": command,
        **judged,
        "axes": data.axes(),
        "precision": "float64",
        "versions": versions,
    }
    total = {kind: round(math.fsum(part[kind] for part in seconds.values()), 4) for kind in ("compile", "run")}
    timing = {"seconds": total, "parts": seconds, "memory": memory, "machine": machine.facts()}
    return ledger.write_record(home, facts, data, timing)


def judge_again(experiment: Experiment, record: ledger.Record) -> ledger.Record:
    """The record with its data as they are, judged by the experiment as it is now."""
    data = Data(record.arrays(), lambda data: design.named_fits(experiment, data))
    facts = {**record.facts, **experiment.identity(record.seed), **judgement(experiment, data)}
    return ledger.write_record(record.path, facts, data, record.timing)


class Standing(Enum):
    """What a finished record is worth to the experiment as it is now."""

    CURRENT = "it says what the experiment would say"
    TO_JUDGE = "its data are those that the experiment would compute, its verdicts those of other code"
    TO_COMPUTE = "its data were computed by other code"


def standing(experiment: Experiment, record: ledger.Record) -> Standing:
    """Compare the code and the words of a record with those of the experiment."""
    now = experiment.identity(record.facts.get("seed", 0))
    if record.facts.get("code", {}).get("computes") != now["code"]["computes"]:
        return Standing.TO_COMPUTE
    same = all(record.facts.get(name) == fact for name, fact in now.items())
    return Standing.CURRENT if same else Standing.TO_JUDGE


def judgement(experiment: Experiment, data: Data) -> dict[str, Any]:
    """The verdicts as plain booleans, the number and bound behind each where it is known, the fits and the numbers."""
    judged = claims(experiment, data)
    evidence = {
        sentence: {"value": _number("claims(data)", sentence, claim.value), "wanted": claim.wanted}
        for sentence, claim in judged.items()
        if claim.value is not None
    }
    return {
        "verdicts": {sentence: claim.holds for sentence, claim in judged.items()},
        "evidence": evidence,
        "fits": {name: fit.facts() for name, fit in data.fits.items()},
        "numbers": {name: _number("numbers(data)", name, value) for name, value in numbers(experiment, data).items()},
    }


def claims(experiment: Experiment, data: Data) -> dict[str, Claim]:
    """The claims of an experiment by their sentences, judged."""
    found = _by_sentence(experiment.claims(data))
    if not found:
        raise Refusal("claims(data) judges at least one claim; it gave none.")
    return found


def numbers(experiment: Experiment, data: Data) -> dict[str, Any]:
    """The numbers of the fits, and those that the experiment adds."""
    told = [_each(name, value) for name, value in _named("numbers(data)", experiment.numbers(data)).items()]
    parts = [*(fit.numbers() for fit in data.fits.values()), *told]
    return {name: value for part in parts for name, value in part.items()}


def _each(name: str, value: Any) -> dict[str, Any]:
    """A number by its name; of a named array all of them, with their labels in place of the axes: "risk, n = {n}"."""
    if not isinstance(value, Named) or not value.dims:
        return {name: value}
    axis = f"{{{value.dims[0]}}}"
    if axis not in name:
        raise Refusal(
            f"numbers(data) gives arrays by names that hold all their axes; {name!r} has no {axis}. "
            f"Write {axis} into it, where the labels shall stand, or reduce the array to one number."
        )
    parts = [_each(name.replace(axis, str(label)), part) for label, part in value.each(value.dims[0])]
    return {name: value for part in parts for name, value in part.items()}


def _by_sentence(found: Any) -> dict[str, Claim]:
    judged: dict[str, Claim] = {}
    for claim in () if found is None else found:
        if not isinstance(claim, Claim):
            raise Refusal(
                f"claims(data) yields claims; got {said(claim)}. "
                'Write yield below("the error", error, 1e-9), for example.'
            )
        if claim.sentence in judged:
            raise Refusal(f"Every claim has a sentence of its own; got twice {claim.sentence!r}.")
        judged[claim.sentence] = claim
    return judged


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
