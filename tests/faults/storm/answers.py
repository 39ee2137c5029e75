"""What came back from a call, and whether that is right: an answer as usual, or a refusal in a sentence."""

import dataclasses
import re
import traceback
import warnings
from typing import Any, NamedTuple

from bend import BAD, SAME, TRACED
from entry import Call
from small import Things

LONGEST = 500
"""The most letters of a refusal."""


class Fault(NamedTuple):
    """What is wrong with what came back, in a word, and what it was."""

    word: str
    detail: str


class Late(BaseException):
    """Raised by the clock in a call that takes too long."""


class Judge:
    """Evaluates calls, and compares their answers with those of the right calls, which it remembers."""

    def __init__(self, rights: dict[str, str]):
        self.things, self.rights, self.known = Things(), rights, {}

    def right(self, name: str) -> Any:
        """The answer of a right call, as its leaves."""
        if name not in self.known:
            self.known[name] = leaves(self._quiet(self.rights[name]))
        return self.known[name]

    def fault(self, call: Call, right: str) -> Fault | None:
        """What is wrong with a bent call; `right` names the entry that it was bent from."""
        from haarflow.errors import Refusal

        try:
            answer = self._quiet(call.source)
        except Refusal as refusal:
            return prose(str(refusal))
        except Late:
            return Fault("LATE", "no answer in time")
        except Exception as error:
            return Fault("RAW", f"{type(error).__name__}: {_short(error)} [{_place(error)}]")
        if call.verdict == BAD:
            return Fault("ACCEPTED", _short(answer))
        return None if call.verdict == TRACED else self._compared(answer, call, right)

    def _compared(self, answer, call: Call, right: str) -> Fault | None:
        found, usual = leaves(answer), self.right(right)
        if call.verdict == SAME:
            words = differences(found, usual, call.slack)
            return Fault("DIFFERS", words) if words else None
        if found[""][0] != usual[""][0]:
            return Fault("KIND", f"{found[''][0]}, usually {usual[''][0]}: {_short(answer)}")
        return Fault("NAN", _short(answer)) if _nans(found) > _nans(usual) else None

    def _quiet(self, source: str):
        """The value of a source, finished and without its warnings."""
        import jax

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.block_until_ready(self.things.value(source))


def prose(sentence: str) -> Fault | None:
    """What is wrong with a refusal as prose: one or two sentences that name what was got."""
    text = re.sub(r"`[^`]*`", "code", sentence)
    sentences = len(re.findall(r"[.?!](?= [A-Z]|$)", text.strip()))
    faults = {
        "does not end with a full stop": not sentence.endswith("."),
        f"has {len(sentence)} letters": len(sentence) > LONGEST,
        "has several lines": "\n" in sentence.strip(),
        f"has {sentences} sentences": sentences > 3,
        "does not say what was got": not re.search(
            r"\b(got|held|is off|came to|have not|were not|takes|would (need|take|hold))\b", text
        ),
        "holds a traceback": "Traceback" in sentence,
    }
    words = ", ".join(words for words, wrong in faults.items() if wrong)
    return Fault("PROSE", f"{words}: {sentence}") if words else None


def leaves(value: Any, place: str = "") -> dict[str, tuple[str, Any]]:
    """Where there is what in an answer: numbers as NumPy arrays, everything else by kind."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic, jax.Array)):
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        return {place: (f"numbers of {array.ndim} axes", array)}
    if isinstance(value, dict):
        parts = {str(name): part for name, part in value.items()}
    elif isinstance(value, (list, tuple)):
        parts = {str(number): part for number, part in enumerate(value)}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        return {place: (type(value).__name__, value if isinstance(value, str) else None)}
    inner = {k: v for name, part in parts.items() for k, v in leaves(part, f"{place}.{name}").items()}
    return {place: (type(value).__name__, None), **inner}


def differences(found: dict, usual: dict, slack: float) -> str:
    """How an answer differs from the usual one by more than rounding; nothing where it does not."""
    import numpy as np

    if set(found) != set(usual):
        return f"parts {sorted(set(found) ^ set(usual))}"
    for place, (kind, value) in found.items():
        wanted_kind, wanted = usual[place]
        if kind != wanted_kind:
            return f"{place or 'answer'} is {kind}, usually {wanted_kind}"
        if isinstance(value, np.ndarray) and value.shape != wanted.shape:
            return f"{place or 'answer'} has shape {value.shape}, usually {wanted.shape}"
        if isinstance(value, np.ndarray) and value.dtype != object:
            room = slack * (1 + np.abs(wanted).max(initial=0.0))
            if not np.allclose(value, wanted, rtol=0, atol=room, equal_nan=True):
                return f"{place or 'answer'} is off by {np.abs(value - wanted).max():.2g}"
        elif isinstance(value, str) and value != wanted:
            return f"{place or 'answer'} is {value!r}, usually {wanted!r}"
    return ""


def _nans(found: dict) -> int:
    import numpy as np

    arrays = [value for _, value in found.values() if isinstance(value, np.ndarray) and value.dtype.kind in "fc"]
    return sum(int(np.isnan(array).any()) for array in arrays)


def _short(value: Any) -> str:
    try:
        words = " ".join(str(value).split())
    except Exception as error:
        words = f"{type(value).__name__} that cannot be printed ({type(error).__name__})"
    return words if len(words) <= 160 else f"{words[:160]}…"


def _place(error: BaseException) -> str:
    """The last line of the library that an error went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/haarflow/" in frame.filename]
    return f"{frames[-1].filename.partition('/haarflow/')[2]}:{frames[-1].lineno}" if frames else "outside"
