"""Data that stay on the host: batches from any Python source, asked for step by step while a compiled flow runs.

A source answers for the number of a step, so that a flow that is killed, or that goes back a few steps, sees the same
batches again; what cannot is refused. A compiled program cannot raise an error of its own: a source that fails leaves
NaN and a complaint, which the flow raises.
"""

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PRNGKeyArray

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.data import Data
from haarflow.learning.labels import WORDS, kept
from haarflow.values import numbers, said

_RULE = "A Loader's source is a function of the step, a sequence of batches, or an iterable that can be begun again"
_complaints: list[Refusal] = []


class InOrder:
    """The batches of an iterable by their number: read forward, and from the beginning for one that has gone by."""

    def __init__(self, source: Iterable):
        self.source, self.iterator, self.next, self.length = source, iter(source), 0, 0

    def __call__(self, step: int) -> Any:
        """Batch number `step`; where the iterable ends, it is begun again."""
        while True:
            step = step % self.length if self.length else step
            if step < self.next:
                self.iterator, self.next = iter(self.source), 0
            for batch in self.iterator:
                self.next += 1
                if self.next == step + 1:
                    return batch
            if not self.next:
                raise Refusal(f"{_RULE}; got one without batches. Write at least one.")
            self.length = self.next


class Host:
    """A source of batches on the host, of one shape and type, that remembers the last one it gave."""

    def __init__(self, source: Any, name: str | None):
        self.source, self.name, self.lock, self.last = source, name, threading.Lock(), None
        self.read = _reader(source)
        self.kinds: Any = None
        self.labels = "reals"  # what the loss takes
        first = self.batch(0)
        self.kinds = tuple(jax.ShapeDtypeStruct(part.shape, part.dtype) for part in first)
        if isinstance(self.read, InOrder) and not _same(first, self._converted(InOrder(source)(0), 0)):
            raise Refusal(
                f"{_RULE} and then gives the same batches; got one whose first batch is another every time. "
                "Write a function batch(step) that shuffles by the number of the step."
            )

    def batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The batch of a step; a refusal where the source has none, or one of another shape."""
        with self.lock:
            if self.last is None or self.last[0] != step:
                try:
                    given = self.read(step)
                except Refusal:
                    raise
                except Exception as error:
                    what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no words'}"
                    raise Refusal(
                        f"A Loader's source gives a batch for every step; got an error at step {step}, "
                        f"{what.rstrip('.')}. Mend the source."
                    ) from error
                self.last = step, self._converted(given, step)
            return self.last[1]

    def _converted(self, given: Any, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (b, d) and labels (b, c) in floating point, as those of the first batch are."""
        rule = "A batch of a Loader is a pair of inputs (b, d) and labels (b, c)"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise Refusal(f"{rule}; got {said(given)} at step {step}. Write (xs, ys).")
        xs, ys = (numbers("A batch of a Loader", part, numpy=True) for part in given)
        ys = ys[:, None] if ys.ndim == 1 else ys
        if xs.ndim != 2 or ys.ndim != 2 or len(xs) != len(ys) or 0 in xs.shape + ys.shape:
            raise Refusal(f"{rule}; got {xs.shape} and {ys.shape} at step {step}. For scalars write xs[:, None].")
        if self.kinds is None:
            default = jnp.zeros(()).dtype
            single = [np.float32 if np.asarray(part).dtype == np.float32 else default for part in given]
            return xs.astype(single[0]), ys.astype(single[1])
        if (xs.shape, ys.shape) != tuple(kind.shape for kind in self.kinds):
            raise Refusal(
                f"The batches of a Loader are of one shape, {self.kinds[0].shape} and {self.kinds[1].shape}; got "
                f"{xs.shape} and {ys.shape} at step {step}. Leave out a batch that is cut short, or fill it."
            )
        if not kept(self.labels, ys):
            raise Refusal(
                f"The batches of a Loader are labelled as their loss takes them, {WORDS[self.labels]}; got "
                f"{', '.join(f'{value:g}' for value in np.unique(ys)[:4])} at step {step}. Mend the source."
            )
        return xs.astype(self.kinds[0].dtype), ys.astype(self.kinds[1].dtype)

    def labelled(self, labels: str) -> "Host":
        """The same source, whose every batch must be labelled as a loss takes it."""
        found = copy.copy(self)  # with the same lock, for both read one source
        found.labels, found.last = labels, None
        return found

    def told(self, step: Any) -> tuple[np.ndarray, np.ndarray]:
        """The batch of a step for a compiled program, which gets NaN where there is none."""
        try:
            return self.batch(int(step))
        except Refusal as refusal:
            _complaints.append(refusal)
            xs, ys = (np.full(kind.shape, np.nan, kind.dtype) for kind in self.kinds)
            return xs, ys

    def __identity__(self):
        return ("source", self.source) if self.name is None else ("name", self.name)

    def __eq__(self, other):
        same = isinstance(other, Host) and self.source is other.source
        return same and (self.name, self.labels) == (other.name, other.labels)

    def __hash__(self):
        return hash((id(self.source), self.name, self.labels))

    def __repr__(self):
        return repr(self.name) if self.name else said(self.source)


def _reader(source: Any) -> Callable[[int], Any]:
    """How a source is asked for the batch of a step."""
    if isinstance(source, str | bytes | dict | type):
        raise Refusal(f"{_RULE}; got {said(source)}. Write a function batch(step) that returns (xs, ys).")
    if callable(source) and not isinstance(source, Sequence):
        return _function(source)
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        if not len(source):
            raise Refusal(f"{_RULE}; got one without batches. Write at least one.")
        return lambda step: source[step % len(source)]
    if isinstance(source, Iterator):
        raise Refusal(
            f"{_RULE}; got {said(source)}, which can be read once only. "
            "Write a function batch(step), or a class whose __iter__ begins again."
        )
    if isinstance(source, Iterable):
        return InOrder(source)
    raise Refusal(f"{_RULE}; got {said(source)}. Write a function batch(step) that returns (xs, ys).")


def _function(source: Callable) -> Callable[[int], Any]:
    try:
        inspect.signature(source).bind(0)
    except TypeError:
        raise Refusal(
            f"{_RULE}; got {said(source)}, which does not take one number. Write def batch(step): return xs, ys."
        ) from None
    except ValueError:  # a built-in function without a signature
        pass
    return source


def _same(one: tuple, other: tuple) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


class Loader(Data):
    """Data that do not fit in memory: batches that a source on the host gives for each step of a flow.

    The source is a function `batch(step) -> (xs, ys)`, a sequence of batches, or an iterable of batches that can be
    begun again and then gives the same ones; the last two are gone through again and again. All batches have the shape
    of the first. Every run of a flow sees the same batches. Outside of a flow, a batch is the first one. `name` stands
    for the data in the identity of a checkpoint, in place of the source and all that it holds.
    """

    host: Host = eqx.field(static=True)
    step: Int[Array, ""]

    def __init__(self, source: Any, *, name: Any = None):
        if name is not None and not isinstance(name, str):
            raise Refusal(f"A Loader's name is a word in quotes; got {said(name)}.")
        self.host, self.step = Host(source, name), jnp.asarray(0)

    @door
    def batch(self, key: PRNGKeyArray):
        if not isinstance(self.step, Tracer):
            xs, ys = self.host.batch(int(self.step))
            return jnp.asarray(xs), jnp.asarray(ys)
        return jax.pure_callback(self.host.told, self.host.kinds, self.step, vmap_method="sequential")

    def at_step(self, key, step):
        return eqx.tree_at(lambda one: one.step, self, jnp.asarray(step))

    def labelled(self, loss, outputs):
        super().labelled(loss, outputs)  # which looks at the first batch
        found = object.__new__(Loader)
        object.__setattr__(found, "host", self.host.labelled(loss.labels))
        object.__setattr__(found, "step", self.step)
        return found

    def shapes(self):
        xs, ys = self.host.kinds
        return xs.shape, ys.shape

    @classmethod
    def examples(cls):
        xs = np.arange(12.0).reshape(3, 2, 2) / 7
        return [cls([(rows, np.sin(rows[:, :1])) for rows in xs])]


@contextlib.contextmanager
def complaints() -> Iterator[Callable[[], None]]:
    """A function that raises what a source has complained of since; what it complained of before is forgotten."""
    _complaints.clear()

    def raised():
        if _complaints:
            raise _complaints[0]

    yield raised
