"""Write docs/results.md: every claim, its number at every seed, in quick and in full mode.

Make records with `haarflow reproduce --quick --seed 0 --out OUT` (and `--seed 1`, `--full`), all into one folder, then
`python docs/make_results.py OUT`. What they say is added to docs/results.json, from which the page is made, so that
full mode, which takes days, may be run an experiment at a time and on several machines.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from haarflow.runs import catalogue, config, ledger
from haarflow.runs.source import source
from haarflow.runs.terminal import duration, evidence

HERE = Path(__file__).parent
KNOWN = HERE / "results.json"
HEAD = """# Results

Every claim of every experiment with the bound that was stated before the run, and the number that was measured: in
quick mode (`haarflow reproduce --quick`) and, where it was run, with the published parameters (`haarflow reproduce
--full`). A claim that does not hold is **bold** and keeps its number and its bound; what is known of its cause is said
below the table. Times are what workers took by the clock, so they are longer where a machine did other work beside.
This page is made by `docs/make_results.py` from the records.
"""

Entry = dict[str, Any]  # what one record says, as it stands in results.json


def main(out: Path) -> None:
    """Add the records of a folder to what is known, and write the page: a table for each experiment."""
    entries = {key_of(one): one for one in [*known(), *found(out)]}
    kept = sorted(entries.values(), key=lambda one: (one["group"], one["experiment"], key_of(one)[1:]))
    KNOWN.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    remarks = read_remarks(HERE / "results_remarks.md")
    page = [HEAD, tally(kept)]
    for name, some in groupby(kept, key=lambda one: one["experiment"]):
        page.append(section(list(some), remarks.get(name, "")))
    (HERE / "results.md").write_text("\n".join(page))


def key_of(entry: Entry) -> tuple[str, bool, int]:
    """Of two entries with the same key the later one counts; quick mode comes first."""
    return entry["experiment"], entry["mode"] == "full", entry["seed"]


def known() -> list[Entry]:
    """What earlier records said of the experiments that there are."""
    entries = json.loads(KNOWN.read_text()) if KNOWN.exists() else []
    return [one for one in entries if one["experiment"] in catalogue.catalogue()]


def found(out: Path) -> Iterator[Entry]:
    """What the records of a folder say, those that were made in a mode."""
    for record in map(ledger.read, ledger.find_records(out)):
        mode = mode_of(record)
        if mode in ("quick", "full"):
            facts = {name: record.facts[name] for name in ("experiment", "group", "claim", "seed", "code")}
            claims = [[claim, evidence(record, claim), holds] for claim, holds in record.verdicts.items()]
            yield {**facts, "mode": mode, "seconds": round(sum(record.seconds.values())), "claims": claims}


def mode_of(record: ledger.Record) -> str | None:
    """The mode in which a record was made, if it was made in one."""
    kind = catalogue.load(record.experiment)
    made = {mode: config.of_mode(kind, mode) for mode in ("quick", "full", "tour")}
    return next((mode for mode, one in made.items() if one and one.model_dump(mode="json") == record.config), None)


def tally(entries: list[Entry]) -> str:
    """How many verdicts hold, by mode and seed."""
    counts = defaultdict(lambda: [0, 0, 0])
    for entry in entries:
        one = counts[key_of(entry)[1:]]
        one[0] += sum(holds for *_, holds in entry["claims"])
        one[1] += len(entry["claims"])
        one[2] += 1
    rows = [
        f"| {'full' if full else 'quick'} | {seed} | {some} | {held} of {total} |"
        for (full, seed), (held, total, some) in sorted(counts.items())
    ]
    return "\n".join(["| mode | seed | experiments | claims that hold |", "|---|---|---|---|", *rows, ""])


def section(entries: list[Entry], remark: str) -> str:
    """The claims of one experiment: the words of a claim name its bound, so that a mode may have claims of its own."""
    first = entries[0]
    columns = [f"{one['mode']}, seed {one['seed']}" for one in entries]
    told = [{claim: (words, holds) for claim, words, holds in one["claims"]} for one in entries]
    rows = [
        "| " + " | ".join([escaped(claim), *(cell(*one[claim]) if claim in one else "" for one in told)]) + " |"
        for claim in dict.fromkeys(claim for one in told for claim in one)
    ]
    seconds = ", ".join(f"{column} {duration(one['seconds'])}" for column, one in zip(columns, entries, strict=True))
    code = source(catalogue.load(first["experiment"]))._asdict()
    older = [column for column, one in zip(columns, entries, strict=True) if one["code"] != code]
    return "\n".join(
        [
            f"## {first['experiment']}\n\n{first['claim']}\n",
            "| claim | " + " | ".join(columns) + " |",
            "|---|" + "---|" * len(columns),
            *rows,
            f"\nTime of the workers: {seconds}.\n",
            *([f"The experiment's file has changed since these were measured: {'; '.join(older)}.\n"] if older else []),
            *([f"{remark}\n"] if remark else []),
        ]
    )


def cell(words: str, holds: bool) -> str:
    """The number behind a verdict; bold where it fails."""
    shown = words or ("holds" if holds else "fails")
    return shown if holds else f"**{shown}**"


def escaped(words: str) -> str:
    """Words for a cell of a table, where a bar would end the cell."""
    return words.replace("|", "\\|")


def read_remarks(path: Path) -> dict[str, str]:
    """What is known of claims that fail, by experiment: the sections of a page beside this script."""
    if not path.exists():
        return {}
    sections = path.read_text().split("\n## ")[1:]
    return {name.strip(): words.strip() for name, _, words in (one.partition("\n") for one in sections)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
