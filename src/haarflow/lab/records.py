"""Records of a folder as the page shows them: by marks that are looked up in a table, never by a path in a URL."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import ledger

MOST = 2000  # records that are listed


class Records:
    """The finished records of a folder and the runs that are going on in it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.places: dict[str, Path] = {}
        self._seen: dict[Path, tuple[float, dict[str, Any]]] = {}

    def table(self) -> dict[str, Any]:
        """Every record: experiment, mark, verdicts, numbers, config and seconds; and what is being run."""
        if not self.folder.is_dir():
            return {"folder": self.folder.name, "records": [], "going": [], "sentence": "There is no such folder yet."}
        found = [self._row(path) for path in ledger.find_records(self.folder)[:MOST]]
        return {"folder": self.folder.name, "records": [row for row in found if row], "going": self._going()}

    def _row(self, path: Path) -> dict[str, Any] | None:
        mark = hashlib.sha256(str(path).encode()).hexdigest()[:16]
        try:
            changed = (path / "record.json").stat().st_mtime
            if self._seen.get(path, (0.0, {}))[0] != changed:
                self._seen[path] = (changed, _facts(ledger.read(path)))
        except (Refusal, OSError, KeyError):
            return None
        self.places[mark] = path
        return {"mark": mark, **self._seen[path][1]}

    def _going(self) -> list[dict[str, Any]]:
        """Runs without a record yet, started by whoever works in this folder: how far they are, and if they go on."""
        found = []
        for parts in [*self.folder.glob("*/parts"), *self.folder.glob("*/*/parts")]:
            home = parts.parent
            if ledger.finished(home):
                continue
            done, plan = list(parts.glob("*.part")), ledger.read_plan(home)
            last = max((path.stat().st_mtime for path in (parts, *done)), default=time.time())
            facts = {"experiment": home.parent.name, "seed": plan.get("seed"), "done": len(done)}
            facts |= {"parts": plan.get("parts"), "seconds": round(time.time() - last, 1), "busy": ledger.busy(home)}
            found.append(facts)
        return found[:100]

    def report(self, mark: str) -> str | None:
        """The section of a record's report, as a page of its own; None for a mark that is not in the table."""
        from haarflow.runs import report

        path = self.places.get(mark)
        return None if path is None else report.page([report.section(ledger.read(path))], {})


def _facts(record: ledger.Record) -> dict[str, Any]:
    numbers = dict(list(record.numbers.items())[:60])
    facts = {
        "experiment": record.experiment,
        "claim": record.claim if len(record.claim) < 400 else record.claim[:399] + "…",
        "seed": record.seed,
        "held": sum(map(bool, record.verdicts.values())),
        "verdicts": dict(list(record.verdicts.items())[:60]),
        "numbers": numbers,
        "config": record.config,
        "seconds": record.seconds["run"],
        "command": record.facts.get("command", ""),
    }
    return json.loads(json.dumps(facts, default=str).replace("NaN", "null").replace("Infinity", "null"))
