"""Who watches a run on the terminal: bars, plain lines, or nobody. What they hear is told by `tell`."""

import sys
from collections.abc import Iterator
from typing import Any

from haarflow.dynamics.progress import bars
from haarflow.dynamics.progress import tell as tell


def in_turns(places: Any, at_once: float | int = 1) -> Iterator[Any]:
    """The places some at a time, at least one, and how far they are is told: so many runs as fit the cache together."""
    size = max(1, int(at_once))
    for first in range(0, len(places), size):
        yield places[first : first + size]
        tell((first + size) / len(places))


class Silent:
    """Shows nothing; the other watchers override what they show."""

    def __enter__(self):
        """Start showing."""
        return self

    def __exit__(self, *reason: Any) -> None:
        """Stop showing."""

    def begin(self, name: str, parts: int, kept: int) -> None:
        """An experiment begins, with some of its parts kept from an earlier run."""

    def moved(self, name: str, part: str, fraction: float, text: str) -> None:
        """A part has told how far it is."""

    def done(self, name: str, part: str) -> None:
        """A part is finished."""

    def end(self, name: str, outcome: str) -> None:
        """An experiment has ended, with an outcome in a few words."""

    def note(self, text: str) -> None:
        """Something worth a line."""


class Lines(Silent):
    """One plain line per event, for logs and pipes."""

    def __init__(self, stream: Any = None):
        """Write to the stream, by default standard error."""
        self.stream = stream or sys.stderr
        self.left: dict[str, int] = {}
        self.total: dict[str, int] = {}

    def begin(self, name: str, parts: int, kept: int) -> None:
        """One line for a beginning."""
        self.total[name], self.left[name] = parts, parts - kept
        kept_words = f", {kept} kept from before" if kept else ""
        self.note(f"{name}: begins, {parts} part{'s' * (parts != 1)}{kept_words}")

    def done(self, name: str, part: str) -> None:
        """One line for a finished part."""
        self.left[name] -= 1
        self.note(f"{name}: {part} done, {self.total[name] - self.left[name]} of {self.total[name]}")

    def end(self, name: str, outcome: str) -> None:
        """One line for an end."""
        self.note(f"{name}: {outcome}")

    def note(self, text: str) -> None:
        """One line."""
        print(text, file=self.stream, flush=True)


class Bars(Silent):
    """Progress bars, one per experiment at work and one for all."""

    def __init__(self, experiments: int):
        """Bars for that many experiments."""
        self.bars = bars()
        self.several = experiments > 1
        self.crowd = experiments > 20  # more bars than a terminal has room for: show those at work
        self.all = self.bars.add_task("[bold]all experiments", total=experiments, text="", visible=self.several)
        self.tasks: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.over: set[str] = set()
        self.fractions: dict[str, dict[str, float]] = {}

    def __enter__(self):
        """Show the bars."""
        self.bars.start()
        return self

    def __exit__(self, *reason: Any) -> None:
        """Leave the last picture on the terminal."""
        self.bars.stop()

    def begin(self, name: str, parts: int, kept: int) -> None:
        """A bar of its own."""
        self.sizes[name] = parts
        self.fractions[name] = {f"kept {i}": 1.0 for i in range(kept)}
        text = f"{kept} kept" if kept else "waiting for a worker"
        self.tasks[name] = self.bars.add_task(name, total=parts, text=text, visible=not self.crowd)
        self._draw(name)

    def moved(self, name: str, part: str, fraction: float, text: str) -> None:
        """Move the bar by a part of a part."""
        if name in self.over:
            return
        self.fractions[name][part] = max(fraction, self.fractions[name].get(part, 0.0))
        self._draw(name, f"{part} {text}".strip() if self.sizes[name] > 1 else text)

    def done(self, name: str, part: str) -> None:
        """Move the bar by a whole part."""
        self.moved(name, part, 1.0, "")

    def end(self, name: str, outcome: str) -> None:
        """Fill the bar and say how it ended."""
        if name not in self.tasks:
            self.begin(name, 1, 1)
        self.over.add(name)
        self.bars.update(self.tasks[name], completed=self.sizes[name], text=outcome, visible=not self.crowd)
        self.bars.stop_task(self.tasks[name])
        self.bars.advance(self.all)

    def note(self, text: str) -> None:
        """A line above the bars."""
        self.bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _draw(self, name: str, text: str | None = None) -> None:
        fields: dict[str, Any] = {} if text is None else {"text": text}
        completed = min(sum(self.fractions[name].values()), self.sizes[name])
        at_work = text is not None or not self.crowd
        self.bars.update(self.tasks[name], completed=completed, visible=at_work, **fields)


def watcher(experiments: int) -> Silent:
    """Bars on a terminal, plain lines elsewhere."""
    return Bars(experiments) if sys.stderr.isatty() else Lines()
