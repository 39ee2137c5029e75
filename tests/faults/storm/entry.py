"""One right call of a public name, and its bent calls."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bend import BAD, FINE, SAME, TRACED, Arg, Bent

from haarflow.contents import addresses

ADDRESS = {address.rpartition(".")[2]: address for address in addresses()}
"""Where each public name is found: `w2` is `distances.w2`."""


class Call(NamedTuple):
    """A bent call: whose, which arguments were bent, its source, what may come back, and to which precision."""

    name: str
    bent: str
    source: str
    verdict: str
    slack: float


@dataclass(frozen=True)
class Entry:
    """A right call: `{*}` in its template stands for the arguments by name, `{argument}` for one of them."""

    name: str
    template: str
    args: dict[str, Arg]

    def source(self, **bent: str) -> str:
        """The call, with some arguments bent."""
        values = {name: bent.get(name, arg.source) for name, arg in self.args.items()}
        named = [name for name in values if f"{{{name}}}" not in self.template]
        text = self.template.replace("{*}", ", ".join(f"{name}={values[name]}" for name in named))
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", f"({value})")
        return text

    @cached_property
    def singles(self) -> list[tuple[str, Bent]]:
        """Every way to bend one argument."""
        return [(name, way) for name, arg in self.args.items() for way in arg.bent()]

    def calls(self, seed: int) -> Iterator[Call]:
        """Every bent call once, in an order that the seed decides; one in eight bends two arguments."""
        draw = random.Random(f"{seed} {self.name} {self.template}")
        singles = list(self.singles)
        draw.shuffle(singles)
        for name, way in singles:
            yield self.call({name: way})
            others = [(other, second) for other, second in self.singles if other != name and second.verdict != TRACED]
            if others and draw.random() < 1 / 8 and way.verdict != TRACED:
                yield self.call({name: way, **dict([draw.choice(others)])})

    def call(self, bent: dict[str, Bent]) -> Call:
        """The call with these arguments bent: bad if one of them surely is, the same if all are."""
        verdicts = {way.verdict for way in bent.values()}
        sure = any(way.verdict == BAD and not way.beside for way in bent.values())
        if BAD in verdicts and not sure and (len(bent) > 1 and verdicts != {BAD, SAME}):
            verdicts = {FINE}
        verdict = next(word for word in (BAD, TRACED, FINE, SAME) if word in verdicts)
        slack = max(way.slack for way in bent.values())
        source = self.source(**{name: way.source for name, way in bent.items()})
        for name in (name for name, way in bent.items() if way.verdict == TRACED):
            source = f"compiled(lambda traced: {source}, {self.args[name].source})"
        return Call(self.name, " and ".join(bent), source, verdict, slack)


def of(name: str, /, **args: Arg) -> Entry:
    """The entry of a public function or class, called by its name."""
    return Entry(name, f"hf.{ADDRESS[name]}({{*}})", args)


def made(name: str, use: str, /, **args: Arg) -> list[Entry]:
    """The entries of a class: made alone, which must refuse what is bad then, and made and used, `{}` in `use`."""
    alone = Entry(name, f"hf.{ADDRESS[name]}({{*}})", {name: arg.when_made() for name, arg in args.items()})
    used = Entry(name, use.replace("{}", alone.template), {name: arg.when_used() for name, arg in args.items()})
    return [alone, used]
