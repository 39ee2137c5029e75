"""An experiment: its fields are the config, its docstring is the claim, its methods make and judge data."""

import contextlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from haarflow.errors import Refusal
from haarflow.runs.catalogue import named, read_docstring

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Work:
    """Says in a setting's type that the work grows like this power of it; of whole numbers it is known."""

    power: int


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Horizon = Annotated[float, Field(gt=0), Work(1)]  # a time to run for
Step = Annotated[float, Field(gt=0), Work(-1)]  # a time that each step makes


class Check(NamedTuple):
    """A verdict with the number it rests on; `below`, `above` and `between` make one."""

    holds: bool
    value: float
    wanted: str


def below(value: Any, bound: Any) -> Check:
    """Holds when value < bound; never when one of them is nan."""
    value, bound = _number("below", value), _number("below", bound)
    return Check(value < bound, value, f"below {bound:g}")


def above(value: Any, bound: Any) -> Check:
    """Holds when value > bound; never when one of them is nan."""
    value, bound = _number("above", value), _number("above", bound)
    return Check(value > bound, value, f"above {bound:g}")


def between(value: Any, low: Any, high: Any) -> Check:
    """Holds when low < value < high; never when one of them is nan."""
    value, low, high = (_number("between", one) for one in (value, low, high))
    if low >= high:
        raise Refusal(
            f"between(value, low, high) has low < high; got {low:g} and {high:g}. Write the smaller of the two first."
        )
    return Check(low < value < high, value, f"between {low:g} and {high:g}")


def _number(owner: str, value: Any) -> float:
    """One real number of any type, nan and infinity among them."""
    import numpy as np

    with contextlib.suppress(TypeError, ValueError, OverflowError):
        found = np.asarray(value)
        if found.ndim == 0 and found.dtype.kind in "fiu":
            return float(found)
    from haarflow.values import said

    got = "True or False" if isinstance(value, bool) else said(value)
    raise Refusal(f"{owner} judges one number; got {got}. Write for example {owner}(errors.max(), ...).")


def stream(key: Any, name: str, *numbers: int) -> Any:
    """A key of its own for every name and numbers, so that what is drawn for one purpose meets no other."""
    import jax

    for number in (zlib.crc32(name.encode()), *numbers):
        key = jax.random.fold_in(key, number)
    return key


@dataclass(frozen=True)
class Panel:
    """One picture of the report: `draw` fills an empty matplotlib Figure of `size` inches.

    A film also has a `movie`, which prepares a Figure and returns the function that shows one of its `frames`.
    """

    title: str
    caption: str
    draw: "Callable[[Figure], None]"
    size: tuple[float, float] = (8.4, 3.8)
    movie: "Callable[[Figure], Callable[[int], None]] | None" = None
    frames: int = 1

    @classmethod
    def film(
        cls,
        title: str,
        caption: str,
        movie: "Callable[[Figure], Callable[[int], None]]",
        frames: int,
        *,
        size: tuple[float, float] = (8.4, 3.8),
    ) -> "Panel":
        """A moving picture; where nothing can move, its last frame is drawn."""
        return cls(title, caption, lambda figure: movie(figure)(frames - 1), size, movie, frames)


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

    def __init_subclass__(cls, **options: Any):
        """Name the experiment after its file."""
        super().__init_subclass__(**options)
        cls.name = named(cls.__module__.rpartition(".")[2])

    @classmethod
    def words(cls) -> dict[str, str]:
        """The docstring taken apart: claim, source and notes."""
        return read_docstring(cls.__doc__ or "")

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

    def parts(self) -> list[str]:
        """The independent pieces of the work, each run by a worker process and kept when it is done."""
        return ["all"]

    def run(self, key: Any, part: str) -> Mapping[str, Any]:
        """The arrays of one part; the key is that of the seed, the same for every part."""
        raise NotImplementedError(f"The experiment {self.name} must define run(self, key, part).")

    def gather(self, pieces: dict[str, dict[str, Any]]) -> Mapping[str, Any]:
        """The arrays of all parts as one dictionary, by default named part/array when there are several."""
        if list(pieces) == ["all"]:
            return pieces["all"]
        return {f"{part}/{name}": array for part, piece in pieces.items() for name, array in piece.items()}

    def verdict(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """Each claim, as a sentence that states its bound, and whether it holds (a bool or a Check)."""
        raise NotImplementedError(f"The experiment {self.name} must define verdict(self, data).")

    def figures(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """The numbers behind the verdicts."""
        return {}

    def panels(self, data: dict[str, Any]) -> list[Panel]:
        """The pictures of the report."""
        return []
