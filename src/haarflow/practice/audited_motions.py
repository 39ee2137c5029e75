"""Inputs moved by group elements and outputs moved back: what the numbers of an audit are made of."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from haarflow.algebra.acting import Action, as_action
from haarflow.algebra.base import Finite
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.errors import Refusal
from haarflow.values import numbers, refuse_unless_affordable, said

LISTED = 64  # elements of a group that are all tried
_TRIED = 32  # elements of a larger one that are

Call = Callable[[Float[np.ndarray, "b d"]], Float[np.ndarray, "b c"]]
Pair = tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]


class Motion:
    """Inputs x (b, d), how elements move them and the outputs, and which elements are tried.

    `elements` begin with the identity. They are the whole group if it is small, which makes errors exact; otherwise a
    few draws, and errors are then measured on `draws` fresh elements for every row.
    """

    def __init__(self, x, on_x: Rep, on_y: Rep, transform: Callable | None, draws: int, key: Any):
        group = on_x.group
        self.x, self.on_x, self.on_y, self.transform = x, on_x, on_y, transform
        self.exact = isinstance(group, Finite) and group.order <= LISTED
        self.draws, self.key = max(draws, 2), key
        if isinstance(group, Finite) and self.exact:
            self.elements = np.asarray(group.elements(), np.float64)
        else:
            some = np.asarray(group.haar(jax.random.fold_in(key, 1), _TRIED - 1), np.float64)
            self.elements = np.concatenate([np.eye(group.dim)[None], some])
        count = len(self.elements) if self.exact else self.draws
        owner = f"An equivariance error over {count} elements and {len(x)} inputs of {x.shape[1]} numbers"
        refuse_unless_affordable(owner, 8.0 * len(x) * x.shape[1] * count, instead="Write fewer rows or draws.")

    def moved(self, g: Float[np.ndarray, "e e"], x: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"]:
        """The inputs moved by one element."""
        if self.transform is None:
            return _applied(self.on_x, g, x)
        found = numbers("What transform returns", self.transform(g, x), numpy=True)
        if found.shape != x.shape:
            raise Refusal(f"transform(g, batch) returns a batch of the same shape {x.shape}; got {said(found)}.")
        return found

    def back(self, g: Float[np.ndarray, "e e"], y: Float[np.ndarray, "b c"]) -> Float[np.ndarray, "b c"]:
        """The outputs moved back by one element."""
        return _applied(self.on_y, g.T, y)

    def seen(self, call: Call, g: Float[np.ndarray, "e e"]) -> Float[np.ndarray, "b c"]:
        """`g⁻¹ f(g x)`, which is f(x) where f is equivariant."""
        return self.back(g, call(self.moved(g, self.x)))

    def row_errors(self, call: Call) -> Pair:
        """For each row, the mean of |f − Qf|² over its orbit, exact or without bias, and that of |f|²."""
        if self.exact or self.transform is not None:
            elements = self.elements if self.exact else self.elements[: self.draws]
            seen = np.stack([self.seen(call, g) for g in elements])
        else:
            drawn = self.on_x.group.draw(jax.random.fold_in(self.key, 2), self.draws * len(self.x))
            fresh = jax.tree.map(np.asarray, drawn)
            seen = np.stack([self._drawn(call, fresh, k * len(self.x)) for k in range(self.draws)])
        spread = np.sum((seen - seen.mean(axis=0)) ** 2, axis=(0, 2))
        return spread / (len(seen) - (not self.exact)), np.mean(np.sum(seen**2, axis=2), axis=0)

    def _drawn(self, call: Call, fresh: Action, start: int) -> Float[np.ndarray, "b c"]:
        """`g⁻¹ f(g x)` with an element of its own for every row, from a place among fresh draws on."""
        mine = fresh.chosen(np.arange(start, start + len(self.x)))
        moved = np.asarray(self.on_x.acting(mine).apply_each(self.x), np.float64)
        return np.asarray(self.on_y.acting(mine).inverse.apply_each(call(moved)), np.float64)

    def deviations(self, call: Call) -> Float[np.ndarray, " m"]:
        """For each element, half the mean of |g⁻¹ f(g x) − f(x)|², relative to that of |f|²."""
        return self._against(call, self.elements)

    def _against(self, call: Call, elements: Any) -> np.ndarray:
        here = call(self.x)
        size = max(float(np.mean(np.sum(here**2, axis=1))), 1e-300)
        return np.array([np.mean(np.sum((self.seen(call, g) - here) ** 2, axis=1)) for g in elements]) / (2 * size)

    def curve(self, call: Call, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The same once around a one-parameter group, with the angles; nothing for other groups."""
        lie = self.on_x.group.lie_algebra()
        if len(lie) != 1:
            return np.zeros(0), np.zeros(0)
        speed = float(np.abs(np.linalg.eigvals(lie[0])).max())
        angles = np.linspace(0, 2 * np.pi, count)
        elements = [np.asarray(scipy.linalg.expm(angle / speed * lie[0])) for angle in angles]
        return angles, self._against(call, elements)

    def local(self, call: Call, eps: float) -> Float[np.ndarray, " l"]:
        """The root mean square of the Lie derivative along each generator, relative to that of f: fourth order."""
        step, found = eps**0.2, []
        size = max(float(np.mean(np.sum(call(self.x) ** 2, axis=1))), 1e-300)
        for a in self.on_x.group.lie_algebra():
            at = {t: self.seen(call, np.asarray(scipy.linalg.expm(t * step * a))) for t in (-2, -1, 1, 2)}
            slope = (at[-2] - 8 * at[-1] + 8 * at[1] - at[2]) / (12 * step)
            found.append(np.sqrt(np.mean(np.sum(slope**2, axis=1)) / size))
        return np.array(found)

    def round_trip(self, call: Call) -> float:
        """Half of what moving the inputs there and back alone does to the outputs, as a mean square."""
        here, gaps = call(self.x), []
        for g in self.elements[1:9]:
            gaps.append(np.mean(np.sum((call(self.moved(g.T, self.moved(g, self.x))) - here) ** 2, axis=1)))
        return float(np.mean(gaps)) / 2 if gaps else 0.0

    def layer_errors(self, listen: Callable, chosen: Mapping[str, Rep | None]) -> dict[str, float]:
        """The relative error of what each layer returns, over the first eight elements."""
        elements = self.elements[: max(8, len(self.elements) * self.exact)]
        heard = [listen(self.moved(g, self.x)) for g in elements]
        return {name: self._layer_error(name, [one[name] for one in heard], elements, chosen) for name in heard[0]}

    def _layer_error(self, name: str, outputs: list[np.ndarray], elements, chosen) -> float:
        rep = chosen[name] if name in chosen else self._pixels(outputs[0].shape)
        rows = [one.reshape(len(one), -1) for one in outputs]
        rep = trivial_rep(self.on_x.group, rows[0].shape[1]) if rep is None else rep
        if rep.dim != rows[0].shape[1]:
            raise Refusal(
                f"The layer {name!r} returns {rows[0].shape[1]} numbers for each input; got a representation on "
                f"R^{rep.dim}. Write one of that size, or None where its output should not move."
            )
        seen = np.stack([_applied(rep, g.T, row) for g, row in zip(elements, rows, strict=True)])
        spread = np.sum((seen - seen.mean(axis=0)) ** 2) / (len(seen) - (not self.exact)) / len(self.x)
        size = float(np.mean(np.sum(seen**2, axis=2)))
        return float(spread) / size if size else 0.0

    def _pixels(self, shape: tuple[int, ...]) -> Rep | None:
        """How a group of the plane moves what a layer returns, (b, c, h, w), as images; None for other outputs."""
        if len(shape) != 4 or self.on_x.group.dim != 2:
            return None
        try:
            pixels = image_rep(self.on_x.group, shape[2], shape[3])
        except Refusal:
            return None
        return pixels if shape[1] == 1 else trivial_rep(self.on_x.group, shape[1]) * pixels


def _applied(rep: Rep, g: Float[np.ndarray, "e e"], rows: Float[np.ndarray, "b k"]) -> Float[np.ndarray, "b k"]:
    """rho(g) of every row, for a g that is an element for certain."""
    return np.asarray(rep.acting(as_action(g[None])).everywhere(rows)[0], np.float64)
