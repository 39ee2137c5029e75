"""A sweep on paper: one experiment, some settings, and lists of values whose combinations are all run."""

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import catalogue
from haarflow.runs.config import configure, merged, read_toml, toml
from haarflow.runs.scheduler import Job, job

MOST = 100_000
WORDS = ("experiment", "mode", "seeds", "set", "sweep")
LIKE = 'Write for example experiment = "rates", seeds = [0, 1], and below [sweep] the line tau = [0.0001, 0.001].'


def jobs(file: Path, out: Path, *, force: bool = False) -> list[Job]:
    """Every combination of values and seeds that a sweep file asks for, each with a label that tells them apart."""
    plan = _read(file)
    kind, mode = catalogue.load(plan["experiment"]), plan.get("mode", "quick")
    runs = math.prod(len(values) for _, values in _leaves(plan.get("sweep", {}), ())) * len(plan["seeds"])
    if runs > MOST:
        raise Refusal(f"A sweep is at most {MOST} runs; {file} asks for {runs}. Write fewer values, or several files.")
    found = []
    for chosen in _combinations(plan.get("sweep", {})):
        values = plan.get("set", {})
        for path, value in chosen:
            values = merged(values, _nested(path, value))
        experiment = configure(kind, mode=mode, values=values)
        words = [f"{'.'.join(path)}={toml(value)}" for path, value in chosen]
        for seed in plan["seeds"]:
            label = f"{kind.name} {', '.join([*words, f'seed={seed}'])}"
            found.append(job(experiment, seed, out, label, force=force))
    return found


def _read(file: Path) -> dict[str, Any]:
    plan = read_toml("sweep", file)
    for word in plan:
        if word not in WORDS:
            raise Refusal(f"A sweep file has no word {word!r}; {catalogue.nearest(word, list(WORDS))}")
    if not isinstance(plan.get("experiment"), str):
        raise Refusal(f"A sweep file names its experiment; got {plan.get('experiment')!r} in {file}. {LIKE}")
    for word in ("set", "sweep"):
        if not isinstance(plan.get(word, {}), dict):
            raise Refusal(f"[{word}] is a table of settings; got {plan[word]!r} in {file}. {LIKE}")
    plan["seeds"] = _seeds(plan.get("seeds", [0]))
    return plan


def _seeds(seeds: Any) -> list[int]:
    listed = isinstance(seeds, list) and len(seeds) > 0
    if not listed or not all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds):
        raise Refusal(f"The seeds of a sweep are a list of whole numbers >= 0; got {seeds!r}. Write seeds = [0, 1, 2].")
    return seeds


def _combinations(table: Mapping[str, Any]) -> Iterator[tuple[tuple[tuple[str, ...], Any], ...]]:
    """Every choice of one value for each setting, the last setting fastest."""
    return itertools.product(*([(path, value) for value in values] for path, values in _leaves(table, ())))


def _leaves(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for name, values in table.items():
        path = (*above, name)
        if isinstance(values, dict):
            yield from _leaves(values, path)
        elif isinstance(values, list) and values:
            yield path, values
        else:
            one = "..." if isinstance(values, list) else toml(values)
            raise Refusal(
                f"[sweep] gives every setting a list of values; got {'.'.join(path)} = {values!r}. "
                f"Write {'.'.join(path)} = [{one}], or put it in [set]."
            )


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return value
