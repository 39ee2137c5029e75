"""Kernel ridge regression on up to tens of thousands of inputs, and ridge regression on the features of a cloud.

Both minimise `|f(xs) − ys|² + ridge · |f|²`, |f| the norm of the kernel's space F2, and give a fit that predicts. The
kernel is evaluated in blocks of rows. Where half its table fits, it is factorised in place (Cholesky); where it does
not, conjugate gradients run on blocks that are made again in every step, preconditioned by the columns of some of the
inputs (Nyström).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from haarflow.doors import Count, NonNegative, Positive, door
from haarflow.dynamics.progress import watching
from haarflow.errors import Refusal, one_of
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import inputs_for, refuse_unless_particles
from haarflow.models.kernels import arc_cosine
from haarflow.models.units import Unit
from haarflow.values import numbers, refuse_unless_affordable

Rows = Float[np.ndarray, "b d"]
Others = Float[np.ndarray, "e d"]
Targets = Float[np.ndarray, " b"] | Float[np.ndarray, "b c"]
KERNELS: dict[str, Callable] = {"relu": arc_cosine}
METHODS = ("auto", "cholesky", "conjugate gradients")
HELD = 1.75e9  # bytes of half a table that is factorised where nothing is said
BLOCK = 2**25  # bytes of a block of rows
PANEL = 512  # columns that are factorised at once
MOST = 2000  # steps of conjugate gradients
NOT_POSITIVE = "Kernel ridge regression takes a positive semi-definite kernel"


@dataclass(frozen=True, repr=False)
class KernelFit:
    """A function `Σ_i weights_i K(x_i, ·)`, how it was found, and its norm in the space F2 of the kernel."""

    kernel: Callable
    xs: Rows
    weights: Float[np.ndarray, "b c"]
    ridge: float
    norm: float  # √(weights' K weights), over all outputs together
    method: str
    residual: float  # |(K + ridge) weights − ys| / |ys|
    steps: int  # of conjugate gradients; 0 after a factorisation
    flat: bool = field(default=False)

    def predict(self, xs: Any) -> np.ndarray:
        """The values (e,) on new inputs (e, d), or (e, c) where the labels had columns."""
        xs = _rows(xs, self.xs.shape[1])
        parts = [block @ self.weights for _, block in _table(self.kernel, xs, self.xs)]
        found = np.concatenate(parts) if parts else np.zeros((0, self.weights.shape[1]))
        return found[:, 0] if self.flat else found

    def __repr__(self) -> str:
        b, c = self.weights.shape
        how = f"{self.method}, {self.steps} steps" if self.steps else self.method
        return (
            f"KernelFit({b} inputs, {c} output{'s' * (c > 1)}, ridge {self.ridge:g}, norm {self.norm:.4g}, by {how}, "
            f"residual {self.residual:.1e})"
        )


@door
def fit_kernel_ridge(
    xs: Rows,
    ys: Targets,
    *,
    ridge: NonNegative,
    kernel: Callable | str = "relu",
    method: str = "auto",
    landmarks: Count | None = None,
    tolerance: Positive = 1e-8,
    progress: bool | Callable | None = None,
) -> KernelFit:
    """Kernel ridge regression as a `KernelFit` with `predict(xs)`, `weights`, `norm` and how it was found.

    `kernel` is "relu", the kernel of infinitely many random ReLU neurons, or a function of two tables of inputs that
    returns the table (b, e) of their pairs: `lambda xs, others: hf.kernels.feature_kernel(unit, cloud, xs, others)`.
    `method` is "cholesky", exact; or "conjugate gradients", which holds only b × `landmarks` numbers (5 √b of them
    if nothing is said, some of the inputs) and stops at the relative residual `tolerance`; or "auto", which factorises
    up to 1.75 GB of half a table. 20 000 inputs take 1.6 GB and n³/3 multiplications one way, minutes and 0.2 GB the
    other.
    """
    one_of("The method of fit_kernel_ridge", method, METHODS)
    if xs.shape[0] == 0:
        raise Refusal("fit_kernel_ridge learns from inputs, at least one; got none. Give xs (b, d) and ys (b,).")
    kernel = _named(kernel)
    _refuse_unless_symmetric(kernel, xs)
    flat, targets = ys.ndim == 1, ys.reshape(len(ys), -1)
    room = 4.0 * len(xs) * (len(xs) + PANEL)  # the half of the table that is held
    if method == "auto":
        method = "cholesky" if room <= HELD else "conjugate gradients"
    with watching(progress, "kernel") as tell:
        if method == "cholesky":
            refuse_unless_affordable("The table of the kernel", room, instead='Write method="conjugate gradients".')
            weights, applied, steps = _factorised(kernel, xs, targets, ridge, tell)
        else:
            m = min(len(xs), int(5 * np.sqrt(len(xs))) if landmarks is None else landmarks)
            chosen = np.sort(np.random.default_rng(0).choice(len(xs), m, replace=False))
            weights, applied, steps = _iterated(kernel, xs, targets, ridge, chosen, tolerance, tell)
    norm = np.sqrt(max(float(np.sum(weights * applied)), 0.0))
    gap = np.linalg.norm(applied + ridge * weights - targets) / max(np.linalg.norm(targets), 1e-300)
    return KernelFit(kernel, xs, weights, float(ridge), float(norm), method, float(gap), steps, flat)


def _factorised(kernel, xs, ys, ridge, tell):
    """The weights by Cholesky, the table overwritten; and K weights, from blocks that are made again."""
    from scipy.linalg import LinAlgError

    panels = [np.empty((len(xs) - start, min(PANEL, len(xs) - start))) for start in range(0, len(xs), PANEL)]
    for rows, block in _table(kernel, xs, xs):
        for place, panel in enumerate(panels[: -(-rows.stop // PANEL)]):
            first = place * PANEL
            top = max(rows.start, first)
            panel[top - first : rows.stop - first] = block[top - rows.start :, first : first + panel.shape[1]]
        tell(0.5 * rows.stop / len(xs))
    try:
        _factorise(panels, ridge)
    except LinAlgError:
        raise Refusal(
            f"{NOT_POSITIVE}, and K + ridge I that can be inverted; got {len(xs)} inputs and ridge={ridge:g} with one "
            "that cannot. Write a larger ridge, or check that the kernel is positive."
        ) from None
    weights = _substituted(panels, ys)
    del panels
    tell(1.0)
    return weights, np.concatenate([block @ weights for _, block in _table(kernel, xs, xs)]), 0


def _factorise(panels: list[np.ndarray], ridge: float) -> None:
    """Cholesky's factor of a table and the ridge, in place; of each panel of columns what lies from the diagonal down.

    So half the table is never held. LAPACK's own routine for the whole has been seen to end the process at 20 000 rows.
    """
    from scipy.linalg import cholesky, solve_triangular

    for place, panel in enumerate(panels):
        width = panel.shape[1]
        corner = cholesky(panel[:width] + ridge * np.eye(width), lower=True, check_finite=False)
        below = solve_triangular(corner, panel[width:].T, lower=True, check_finite=False).T
        panel[:width], panel[width:] = corner, below
        for order, other in enumerate(panels[place + 1 :]):
            rows = below[order * PANEL :]
            other -= rows @ rows[: other.shape[1]].T


def _substituted(panels: list[np.ndarray], ys: Float[np.ndarray, "b c"]) -> Float[np.ndarray, "b c"]:
    """The solution by the factor in the panels, forwards and backwards."""
    from scipy.linalg import solve_triangular

    found, places = np.array(ys, float), [slice(start, start + PANEL) for start in range(0, len(ys), PANEL)]
    for here, panel in zip(places, panels, strict=True):
        width = panel.shape[1]
        found[here] = solve_triangular(panel[:width], found[here], lower=True, check_finite=False)
        found[here.stop :] -= panel[width:] @ found[here]
    for here, panel in zip(reversed(places), reversed(panels), strict=True):
        width = panel.shape[1]
        found[here] -= panel[width:].T @ found[here.stop :]
        found[here] = solve_triangular(panel[:width], found[here], lower=True, trans=1, check_finite=False)
    return found


def _iterated(kernel, xs, ys, ridge, chosen, tolerance, tell):
    """The weights by conjugate gradients on all outputs at once, and K weights."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if not ridge > 0:
        raise Refusal(
            f'Conjugate gradients need a positive ridge; got ridge={ridge:g}. Write 1e-6, or method="cholesky".'
        )
    columns = np.concatenate([block for _, block in _table(kernel, xs, xs[chosen])])
    small = ridge * columns[chosen] + columns.T @ columns
    small += 1e-12 * np.trace(small) / len(small) * np.eye(len(small))
    try:
        inner = cho_factor((small + small.T) / 2)
    except LinAlgError:
        raise Refusal(f"{NOT_POSITIVE}; that of the landmarks is not. Write another kernel.") from None

    def solved(rest):
        return (rest - columns @ cho_solve(inner, columns.T @ rest)) / ridge

    def applied(weights):
        return np.concatenate([block @ weights for _, block in _table(kernel, xs, xs)]) + ridge * weights

    return _conjugate_gradients(applied, solved, ys, ridge, tolerance, tell)


def _conjugate_gradients(applied, solved, ys, ridge, tolerance, tell):
    """The textbook's preconditioned recursion, a column for each output, each with its own step."""
    weights, rest = np.zeros_like(ys), ys.copy()
    sizes, gap = np.maximum(np.linalg.norm(ys, axis=0), 1e-300), 1.0
    near = solved(rest)
    way, inner = near, np.sum(rest * near, axis=0)
    for step in range(MOST + 1):
        gap = (np.linalg.norm(rest, axis=0) / sizes).max()
        tell(min(1.0, np.log10(max(gap, 1e-300)) / np.log10(tolerance)) if gap < 1 else 0.0)
        if gap <= tolerance:
            return weights, ys - rest - ridge * weights, step
        if step == MOST:
            break
        pushed = applied(way)
        curved = np.sum(way * pushed, axis=0)
        if (curved[inner != 0] <= 0).any():
            raise Refusal(f"{NOT_POSITIVE}; got a direction along which it is negative. Write another kernel.")
        length = np.divide(inner, curved, out=np.zeros_like(inner), where=curved > 0)
        weights, rest = weights + length * way, rest - length * pushed
        near = solved(rest)
        last, inner = inner, np.sum(rest * near, axis=0)
        way = near + np.divide(inner, last, out=np.zeros_like(inner), where=last > 0) * way
    raise Refusal(
        f"Conjugate gradients reach a relative residual of {tolerance:g} in {MOST} steps; got {gap:.1e}. "
        "Write a larger ridge, more landmarks, or a larger tolerance."
    )


def _table(kernel: Callable, xs: Rows, others: Others) -> Iterator[tuple[slice, np.ndarray]]:
    """The kernel's table in float64, some rows at a time; the last block is moved back, so that one program serves."""
    height = int(np.clip(BLOCK // max(8 * len(others), 1), 1, max(len(xs), 1)))
    with jax.enable_x64(True):
        made = _compiled(kernel, xs[:1], others[:1])
        for start in range(0, len(xs), height):
            begin = max(0, min(start, len(xs) - height))
            block = numbers("The table of a kernel", made(xs[begin : begin + height], others), numpy=True)
            if block.shape != (min(height, len(xs)), len(others)):
                raise Refusal(
                    f"A kernel of {min(height, len(xs))} and {len(others)} inputs is a table of so many rows and "
                    f"columns; got {block.shape}. Write it as a function of two tables (b, d) and (e, d)."
                )
            yield slice(start, min(start + height, len(xs))), block[start - begin :]


def _compiled(kernel: Callable, xs: Rows, others: Others) -> Callable:
    """The kernel as one program, or as it is where it is written in NumPy."""
    try:
        jax.eval_shape(kernel, xs, others)
    except jax.errors.JAXTypeError:
        return kernel
    return _programs.setdefault(kernel, jax.jit(kernel)) if kernel in KERNELS.values() else jax.jit(kernel)


_programs: dict[Callable, Callable] = {}


def _named(kernel: Callable | str) -> Callable:
    return KERNELS[one_of("A kernel by name", kernel, KERNELS)] if isinstance(kernel, str) else kernel


def _refuse_unless_symmetric(kernel: Callable, xs: Rows) -> None:
    some = xs[:40]
    table = np.concatenate([block for _, block in _table(kernel, some, some)])
    gap, size = np.abs(table - table.T).max(), np.abs(table).max()
    if gap > 1e-6 * size:
        raise Refusal(
            f"A kernel is symmetric, K(x, x') = K(x', x); got values that differ by {gap:.2g}. Write another kernel."
        )
    if np.linalg.eigvalsh(table)[0] < -1e-7 * size * len(some):
        raise Refusal(
            f"{NOT_POSITIVE}; on the first {len(some)} inputs its least eigenvalue is "
            f"{np.linalg.eigvalsh(table)[0]:.2g}. Write another kernel."
        )


def _rows(xs: Any, d: int) -> Rows:
    xs = numbers("The inputs of a fit", xs, numpy=True)
    if xs.ndim != 2 or xs.shape[1] != d:
        raise Refusal(f"A fit on inputs in R^{d} predicts on a table (e, {d}); got {xs.shape}. Write a row for each.")
    return xs


@dataclass(frozen=True, repr=False)
class FeatureFit:
    """A function `∫ weights · phi(x, θ) dmu`: the features of a cloud that stays, and the weights that were learned."""

    unit: Unit
    cloud: Cloud
    weights: Float[np.ndarray, " n"]
    ridge: float
    norm: float  # √(∫ weights² dmu), the norm of F2 for the features' kernel

    def predict(self, xs: Any) -> Any:
        """The values (e, c) on new inputs (e, d)."""
        xs = inputs_for(self.unit, self.cloud, xs)
        scaled = np.asarray(self.cloud.weights) * self.weights
        found = self.unit.weighted_sum(jax.numpy.asarray(scaled), self.cloud.atoms, xs)
        return found if isinstance(found, Tracer) else np.asarray(found)

    def __repr__(self) -> str:
        return f"FeatureFit({self.cloud.n} features of {self.unit.title}, ridge {self.ridge:g}, norm {self.norm:.4g})"


@door
def fit_random_features(unit: Unit, cloud: Cloud, xs: Rows, ys: Targets, *, ridge: NonNegative) -> FeatureFit:
    """Ridge regression on the features `phi(x, θ_i)` of a cloud drawn from some law: only their weights learn.

    It is kernel ridge regression with `feature_kernel(unit, cloud, ...)`, solved in as many unknowns as there are
    particles; as these grow in number, it becomes that of their law.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    refuse_unless_particles(unit, cloud)
    with jax.ensure_compile_time_eval():  # a fit inside a compiled program is made once, with it
        inputs, targets = inputs_for(unit, cloud, xs), ys.reshape(len(ys), -1)
    if targets.shape[1] != unit.outputs:
        raise Refusal(
            f"A unit with {unit.outputs} outputs learns from labels ({len(ys)}, {unit.outputs}); got {ys.shape}. "
            "Give a column for each output."
        )
    if not ridge > 0 and cloud.n > targets.size:
        raise Refusal(
            f"Ridge regression on {cloud.n} features from {targets.size} labels needs a positive ridge; got "
            f"{ridge:g}. Write ridge=1e-6, or more inputs."
        )
    room = 8.0 * cloud.n * (cloud.n + 2.0 * min(len(ys), 1024) * unit.outputs)
    refuse_unless_affordable("The features of a fit", room, instead="Write fewer particles.")
    roots = np.sqrt(np.asarray(cloud.weights, float))
    table, sums = np.zeros((cloud.n, cloud.n)), np.zeros(cloud.n)
    for start in range(0, len(ys), 1024):
        with jax.ensure_compile_time_eval():
            part = np.asarray(unit.batched(cloud.atoms, inputs[start : start + 1024]), float)
        part = roots[:, None] * part.reshape(cloud.n, -1)
        table += part @ part.T
        sums += part @ targets[start : start + 1024].T.ravel()
    table.ravel()[:: cloud.n + 1] += ridge
    try:
        scaled = cho_solve(cho_factor(table, overwrite_a=True), sums)
    except LinAlgError:
        raise Refusal(
            f"Ridge regression needs features that are independent, or a larger ridge; got {cloud.n} features and "
            f"ridge={ridge:g}. Write a larger ridge."
        ) from None
    weights = np.divide(scaled, roots, out=np.zeros_like(scaled), where=roots > 0)
    return FeatureFit(unit, cloud, weights, float(ridge), float(np.linalg.norm(scaled)))
