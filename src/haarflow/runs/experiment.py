"""An experiment: its fields are the config, its docstring is the claim, its methods make and judge data.

One file, named after the claim, which needs this import and no other of the kit: a design says which methods run for
which cells, methods return named arrays, fits are power laws made once, claims state their bounds, panels draw.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from haarflow.runs.catalogue import fault_sentence, named_after, read_docstring
from haarflow.runs.claims import Claim, above, at_least, below, between, holds, within
from haarflow.runs.design import Cells, blocks, compute, gather, once, over, parts
from haarflow.runs.named import Data, Named, joined, named
from haarflow.runs.panels import Panel, drawn, film, panel
from haarflow.runs.sizes import Count, Horizon, NonNegative, Positive, Sizes, Step, Steps
from haarflow.runs.statistics import Fit, power_law, slope
from haarflow.runs.watchers import in_turns, tell

__all__ = [
    "Cells",
    "Claim",
    "Count",
    "Data",
    "Experiment",
    "Fit",
    "Horizon",
    "Named",
    "NonNegative",
    "Panel",
    "Positive",
    "Sizes",
    "Step",
    "Steps",
    "above",
    "at_least",
    "below",
    "between",
    "blocks",
    "film",
    "holds",
    "in_turns",
    "joined",
    "named",
    "once",
    "over",
    "panel",
    "power_law",
    "slope",
    "stream",
    "tell",
    "within",
]


def stream(key: Any, name: str, *numbers: int) -> Any:
    """A key of its own for every name and numbers, so that what is drawn for one purpose meets no other."""
    import jax

    for number in (zlib.crc32(name.encode()), *numbers):
        key = jax.random.fold_in(key, number)
    return key


class Experiment(BaseModel):
    """One claim and how to test it; subclass it in a file of its own, named after the claim."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    name: ClassVar[str] = "experiment"
    group: ClassVar[str] = "symmetry"
    tour_included: ClassVar[bool] = False
    version: ClassVar[int] = 1  # raise it when the same config should give new records
    seconds: ClassVar[float] = (
        1.0  # that its quick mode runs on one core, compiling apart; what a run costs rests on it
    )
    faults: ClassVar[Mapping[str, str]] = {}  # mistakes that the field `fault` plants, and what each of them does

    if TYPE_CHECKING:
        fault: Any = "none"  # a field of those experiments that declare faults

    def __init_subclass__(cls, **options: Any):
        """Name the experiment after its file, and make the field `fault` of the faults it declares."""
        super().__init_subclass__(**options)
        cls.name = named_after(cls.__module__.rpartition(".")[2])
        if "faults" in vars(cls):
            cls.__annotations__["fault"] = Literal[("none", *cls.faults)]
            cls.fault = "none"

    @classmethod
    def words(cls) -> dict[str, str]:
        """The docstring taken apart: claim, source and notes, with the sentence that the faults make."""
        words = read_docstring(cls.__doc__ or "")
        return {**words, "notes": "\n\n".join(filter(None, [words["notes"], fault_sentence(cls.faults)]))}

    @classmethod
    def examples(cls) -> list["Experiment"]:
        """What the laws of experiments are asked of: its quick size."""
        return [cls.quick()]

    @classmethod
    def tour(cls) -> "Experiment":
        """The smallest size whose verdict means something."""
        return cls.quick()

    @classmethod
    def quick(cls) -> "Experiment":
        """Minutes on a laptop: the defaults."""
        return cls()

    @classmethod
    def full(cls) -> "Experiment":
        """The published parameters."""
        return cls()

    def design(self) -> Iterable[tuple[Any, Cells]]:
        """The methods that make the data, each with its cells; `run` once, unless told otherwise.

        A method takes the key of the seed, the same for every part, and the labels of its cell by name; it returns a
        dictionary of named arrays. The parts run in this order, in worker processes, and are kept when they are done.
        """
        yield self.run, once()

    def run(self, *key: Any, **more: Any) -> Mapping[str, Any]:
        """`run(key)`: the named arrays of an experiment that is one part."""
        raise NotImplementedError(f"The experiment {self.name} must define run(self, key), or a design(self).")

    def fits(self, data: Data) -> Mapping[str, Fit]:
        """The power laws by name, made once: `data.fits[name]` in claims and panels; their slopes are numbers too."""
        return {}

    def claims(self, data: Data) -> Iterable[Claim]:
        """Each claim by `below`, `above`, `between` or a fit's own; the bound stands in the call, and is printed."""
        raise NotImplementedError(f"The experiment {self.name} must define claims(self, data).")

    def numbers(self, data: Data) -> Mapping[str, Any]:
        """Numbers worth showing that neither a claim nor a fit tells, by name.

        Of a named array all are told, by names that hold its axes: `{"risk, n = {n}": data.risk.mean("run")}`.
        """
        return {}

    def panels(self, data: Any) -> list[Panel]:
        """The pictures of the report: the methods marked by `@panel` and `@film`."""
        return drawn(self, data)

    def computed(self, key: Any) -> Data:
        """The data of all parts, run one after the other in this process and kept nowhere; to try things out."""
        return gather(self, {part: compute(self, key, part) for part in parts(self)})

    def identity(self, seed: int) -> dict[str, Any]:
        """What is asked of which code, and the digest that names what is asked."""
        from haarflow.runs.ledger import digest
        from haarflow.runs.source import source

        config = self.model_dump(mode="json")
        return {
            "experiment": self.name,
            "group": self.group,
            **self.words(),
            "config": config,
            "seed": seed,
            "version": self.version,
            "code": source(type(self))._asdict(),
            "digest": digest(self.name, config, seed, self.version),
        }
