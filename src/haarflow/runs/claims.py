"""Claims: a sentence, the number it rests on, and the bound, which is stated once and printed.

`below("EA is equivariant: |f − Qf|²", worst, 1e-24)` prints "EA is equivariant: |f − Qf|² below 1e-24". Where the bound
belongs elsewhere in the sentence, write `{bound}` there, as a format if need be: "… within {bound:.0%} of the law".
"""

import contextlib
import re
from typing import Any, NamedTuple

from haarflow.errors import Refusal


class Claim(NamedTuple):
    """A sentence with its bound, whether it holds, the number it rests on and what was wanted of it."""

    sentence: str
    holds: bool
    value: float | None
    wanted: str


def below(sentence: Any, value: Any = None, bound: Any = None) -> Claim:
    """Holds when value < bound; never when one of them is nan."""
    sentence, value, bound = _judged("below", sentence, value, bound)
    return _claim(sentence, value < bound, value, f"below {bound:g}", bound=bound)


def above(sentence: Any, value: Any = None, bound: Any = None) -> Claim:
    """Holds when value > bound; never when one of them is nan."""
    sentence, value, bound = _judged("above", sentence, value, bound)
    return _claim(sentence, value > bound, value, f"above {bound:g}", bound=bound)


def between(sentence: Any, value: Any = None, low: Any = None, high: Any = None) -> Claim:
    """Holds when low < value < high; never when one of them is nan."""
    sentence, value, low, high = _judged("between", sentence, value, low, high)
    if low >= high:
        raise Refusal(
            f"between(value, low, high) has low < high; got {low:g} and {high:g}. Write the smaller of the two first."
        )
    return _claim(sentence, low < value < high, value, f"between {low:g} and {high:g}", low=low, high=high)


def at_least(sentence: str, value: Any, bound: Any) -> Claim:
    """Holds when value >= bound: for shares and counts, which may meet their bound."""
    sentence, value, bound = _judged("at_least", sentence, value, bound)
    return _claim(sentence, value >= bound, value, f"at least {bound:g}", bound=bound)


def within(sentence: str, value: Any, low: Any, high: Any) -> Claim:
    """Holds when low <= value <= high: for counts in a band, whose ends belong to it."""
    sentence, value, low, high = _judged("within", sentence, value, low, high)
    return _claim(sentence, low <= value <= high, value, f"from {low:g} to {high:g}", low=low, high=high)


def holds(sentence: str, truth: Any) -> Claim:
    """A claim that is true or false without a number; prefer one of the others, which show how far it is from false."""
    import numpy as np

    from haarflow.values import said

    found = np.asarray(truth)
    if found.ndim or found.dtype != bool:
        raise Refusal(
            f"holds judges what is true or false; {sentence!r} is {said(found)}. Write `.all()`, or below(...)."
        )
    return Claim(_words(sentence), bool(found), None, "")


def _judged(owner: str, sentence: Any, *numbers: Any) -> tuple[Any, ...]:
    """The sentence and the numbers, checked."""
    return _words(sentence), *(_number(owner, one) for one in numbers)


def _words(sentence: Any) -> str:
    if not isinstance(sentence, str) or not sentence.strip():
        from haarflow.values import said

        raise Refusal(f'A claim begins with its sentence; got {said(sentence)}. Write below("the error", error, 1e-9).')
    return sentence


def _claim(sentence: str, holds: bool, value: float, wanted: str, **bounds: float) -> Claim:
    place = re.compile(r"\{(" + "|".join(bounds) + r")(?::([^}]*))?\}")
    if place.search(sentence):
        sentence = place.sub(lambda found: format(bounds[found[1]], found[2] or "g"), sentence)
    else:
        sentence = f"{sentence} {wanted}"
    return Claim(re.sub(r"(?<![\w)])-(?=[\d.])", "−", sentence), holds, value, wanted)


def _number(owner: str, value: Any) -> float:
    """One real number of any type, nan and infinity among them."""
    import numpy as np

    with contextlib.suppress(TypeError, ValueError, OverflowError):
        found = np.asarray(value)
        if found.ndim == 0 and found.dtype.kind in "fiu":
            return float(found)
    from haarflow.values import said

    got = "True or False" if isinstance(value, bool) else said(value)
    raise Refusal(f'{owner} judges one number; got {got}. Write for example {owner}("the error", errors.max(), ...).')
