"""What a divergence in variational form gives: its value, the witness that attains it, and how far both can be off."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.values import numbers

Values = Callable[[Float[np.ndarray, "b p"]], Float[np.ndarray, " b"]]


@dataclass(frozen=True)
class Divergence:
    """A divergence of two samples: value ≤ divergence ≤ value + gap, and the witness that attains the value.

    `witness(z)` gives the discriminator at points (b, p), invariant where a group acts; `float(found)` is the value.
    """

    value: float
    gap: float
    name: str
    function: Values = field(repr=False)
    x: Float[np.ndarray, "n p"] = field(repr=False)
    y: Float[np.ndarray, "m p"] = field(repr=False)

    def witness(self, z: Any) -> Float[np.ndarray, " b"]:
        """The witness at points (b, p): (b,)."""
        from haarflow.errors import Refusal

        points = numbers("A witness's z", z, numpy=True)
        if points.ndim != 2 or points.shape[1] != self.x.shape[1]:
            raise Refusal(
                f"A witness takes points (b, {self.x.shape[1]}); got an array of shape {points.shape}. Write one row "
                "for each point."
            )
        return self.function(points)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.6g}, to {max(self.gap, 0.0):.1e}"

    def draw(self, axis: Any) -> Any:
        """Draw the witness and both samples into an axis of matplotlib; returns the axis.

        On the line as a curve, in the plane as shades, else as the histograms of its values on both samples.
        """
        both = np.concatenate([self.x, self.y])
        if both.shape[1] == 1:
            self._curve(axis, both[:, 0])
        elif both.shape[1] == 2:
            self._shades(axis, both)
        else:
            for z, label in ((self.x, "first sample"), (self.y, "second sample")):
                axis.hist(self.function(z), bins=30, alpha=0.6, density=True, label=label)
            axis.set(xlabel="witness", ylabel="density")
            axis.legend()
        axis.set_title(str(self), fontsize=9)
        return axis

    def _curve(self, axis: Any, both: np.ndarray) -> None:
        reach = 0.1 * max(float(np.ptp(both)), 1e-12)
        line = np.linspace(both.min() - reach, both.max() + reach, 400)
        axis.plot(line, self.function(line[:, None]), color="black", linewidth=1)
        for z, label, marker in ((self.x, "first sample", "|"), (self.y, "second sample", "x")):
            axis.plot(z[:, 0], self.function(z), marker, label=label)
        axis.set(xlabel="z", ylabel="witness")
        axis.legend()

    def _shades(self, axis: Any, both: np.ndarray) -> None:
        low, high = both.min(axis=0), both.max(axis=0)
        reach = 0.1 * np.maximum(high - low, 1e-12)
        lines = [np.linspace(a, b, 120) for a, b in zip(low - reach, high + reach, strict=True)]
        grid = np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2)
        axis.contourf(*lines, self.function(grid).reshape(120, 120), levels=24, cmap="PuOr_r", alpha=0.8)
        axis.plot(*self.x.T, "o", markersize=3, color="#7a3b00", label="first sample")
        axis.plot(*self.y.T, "^", markersize=3, color="#2d1160", label="second sample")
        axis.set_aspect("equal")
        axis.legend(fontsize=8)
