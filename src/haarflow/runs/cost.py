"""What a run would cost, told before any of it is done.

The work is taken to grow in proportion to every whole number among the settings (a list counts by its sum), to every
`Horizon` and to one over every `Step`, from the `seconds` that the experiment states for its quick mode. That is
rough, and enough to tell an hour from a century. What takes more than an hour, and more than the largest of the
published modes, is asked for with --force; so is what needs more than half of the machine's memory at one number for
each.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from haarflow.errors import Refusal
from haarflow.runs.config import MODES, of_mode
from haarflow.runs.experiment import Experiment
from haarflow.runs.sizes import Work
from haarflow.values import in_bytes, machine_memory, real

HOUR, YEAR = 3600.0, 365.25 * 24 * 3600.0  # seconds
MOST = 10**15  # of anything, at any cost: at a nanosecond each this is eleven days
INSTEAD = "Write less, or give --force."


class Size(NamedTuple):
    """The logarithm of what a setting contributes to the work, and the largest whole number in it."""

    work: float = 0.0
    most: int = 0


def refuse_unless_affordable(experiment: Experiment, *, force: bool = False) -> None:
    """Refuse settings that would take more than an hour or more memory than there is, unless they are asked for."""
    sizes = settings(experiment)
    largest = max(sizes, key=lambda name: sizes[name].most, default="")
    most = sizes[largest].most if largest else 0
    if force and most > MOST:
        raise Refusal(
            f"{experiment.name}, setting {largest!r}: whole numbers are at most {MOST:.0e}, whatever the cost; got a "
            f"number of {len(str(most))} digits. Write a smaller number."
        )
    if force:
        return
    modes = {mode: made for mode in MODES if (made := of_mode(type(experiment), mode)) is not None}
    published = [settings(made) for made in modes.values()]
    usual = _work(settings(modes["quick"])) if "quick" in modes else _work(sizes)
    seconds = math.log(max(real(f"The seconds of {experiment.name}", experiment.seconds), 1e-9)) + _work(sizes) - usual
    if seconds > math.log(HOUR) and _work(sizes) > max(map(_work, published)) + 1e-9:
        blamed = max(sizes, key=lambda name: sizes[name].work - max(mode[name].work for mode in published))
        raise Refusal(
            f"{experiment.name} takes at most an hour, or what its published modes take; with these settings it would "
            f"take about {in_time(seconds)}, most of all by {blamed!r}. {INSTEAD}"
        )
    if (room := 8.0 * min(most, 10**300)) > machine_memory() / 2:
        raise Refusal(
            f"{experiment.name} takes at most half of this machine's memory, {in_bytes(machine_memory() / 2)}; at one "
            f"number each, {largest!r} alone would take {in_bytes(room)}. {INSTEAD}"
        )


def affordable(experiment: Experiment) -> bool:
    """Whether the settings are taken without --force."""
    try:
        refuse_unless_affordable(experiment)
    except Refusal:
        return False
    return True


def settings(config: BaseModel) -> dict[str, Size]:
    """What every setting contributes."""
    fields = type(config).model_fields
    return {
        name: _size(getattr(config, name), _power(field.annotation, field.metadata)) for name, field in fields.items()
    }


def growth(config: BaseModel) -> dict[str, int]:
    """How the work is taken to grow with every setting: 1 with it, −1 with one over it, 0 not at all."""
    powers = {name: _power(field.annotation, field.metadata) for name, field in type(config).model_fields.items()}
    return {name: power or int(any(True for _ in _numbers(getattr(config, name), 0))) for name, power in powers.items()}


def _work(sizes: Mapping[str, Size]) -> float:
    return math.fsum(size.work for size in sizes.values())


def _size(value: Any, power: int) -> Size:
    if isinstance(value, BaseModel):
        inner = settings(value)
        return Size(_work(inner), max((size.most for size in inner.values()), default=0))
    numbers = list(_numbers(value, power))
    whole = [abs(number) for number in numbers if isinstance(number, int)]
    parts = sum(whole) + sum(max(abs(number), 1e-300) ** power for number in numbers if isinstance(number, float))
    return Size(math.log(max(parts, 1e-300)) if numbers else 0.0, max(whole, default=0))


def _numbers(value: Any, power: int) -> Iterable[int | float]:
    """The numbers of a setting that cost something: whole ones, and others where the type says so."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _numbers(one, power)
    elif (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and power and value):
        yield value


def _power(annotation: Any, metadata: Iterable[Any] = ()) -> int:
    """The power of a setting in the work, as its type says; 0 where it says nothing."""
    marks = [*metadata, *(get_args(annotation)[1:] if get_origin(annotation) is Annotated else ())]
    found = [mark.power for mark in marks if isinstance(mark, Work)]
    return found[0] if found else next((power for part in get_args(annotation) if (power := _power(part))), 0)


def in_time(log_seconds: float) -> str:
    """A time in words, from its logarithm: 3 hours, 2e+12 years."""
    seconds = math.exp(min(log_seconds, 700.0))
    if seconds >= 2 * YEAR:
        return f"{seconds / YEAR:.2g} years"
    for unit, length in (("days", 86400.0), ("hours", HOUR), ("minutes", 60.0)):
        if seconds > 1.999 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
