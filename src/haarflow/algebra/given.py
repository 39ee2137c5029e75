"""Representations that the user gives: by matrices, by a function of the element, or by moving points."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra import proofs
from haarflow.algebra.checks import fits, refuse_broken, whole
from haarflow.algebra.groups import Cyclic, Dihedral, Rotations, SpecialOrthogonal, Symmetric
from haarflow.algebra.kinds import Finite, Group, Matrix, finite
from haarflow.algebra.proofs import cayley
from haarflow.algebra.reps import Rep, Vectors
from haarflow.algebra.tables import Frozen, Places, distinct, match, permutation_matrices, static
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.values import numbers, said


class Tabulated(Rep):
    """A representation of a finite group by the matrices of its elements, in their order."""

    table: Frozen = static()

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.table.array.shape[-1]

    def __check_init__(self):
        group, table = _finite(self.group, "A table of matrices"), self.table.array
        _shaped("elements", table, (group.order, table.shape[-1], table.shape[-1]))
        proofs.keep_products(group, table)

    def matrix(self, g: Matrix) -> Matrix:
        return _row(self.group, self.table, g)

    def listed(self):
        return self.table.array

    @classmethod
    def examples(cls):
        signs = np.linalg.det(Symmetric(3).elements())[:, None, None]
        return [cls(Symmetric(3), Frozen(signs)), cls(Cyclic(3), Frozen(Rotations(3).elements()))]


class Permuting(Rep):
    """A representation of a finite group that sends e_i to e_{p(i)}: one row p for each element."""

    table: Frozen = static()

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.table.array.shape[-1]

    def __check_init__(self):
        group, table = _finite(self.group, "A table of permutations"), self.table.array
        _shaped("elements", table, (group.order, table.shape[-1]))
        refuse_broken(group, float(np.any(table[0] != np.arange(self.dim))))
        for generator, edges in zip(group.generators(), cayley(group), strict=True):
            refuse_broken(group, float(np.any(table[edges] != table[:, table[group.index(generator)]])))

    def matrix(self, g: Matrix) -> Matrix:
        images = _row(self.group, self.table, g)
        if isinstance(images, np.ndarray):
            return permutation_matrices(images)
        return jnp.eye(self.dim, dtype=g.dtype)[images].T

    def images(self, g):
        return np.asarray(_row(self.group, self.table, g)), np.ones(self.dim)

    def trace(self, g):
        return float(np.sum(self.images(g)[0] == np.arange(self.dim)))

    def moved(self, g: Matrix, z: Vectors) -> Vectors:
        back = (jnp if isinstance(g, jax.Array) else np).argsort(_row(self.group, self.table, g))
        return (z if isinstance(back, np.ndarray) else jnp.asarray(z))[..., back]

    def listed(self):
        return permutation_matrices(self.table.array)

    @classmethod
    def examples(cls):
        turned = permutation(Cyclic(4), generators=[(1, 0, 2)])
        return [turned, regular(Symmetric(3)), image(Dihedral(4), 3, 3), image(Dihedral(1), 3, 2)]


class Formula(Rep):
    """A representation by a function g (d, d) -> rho(g) (k, k); in jax.numpy to be used inside jit."""

    function: Callable = static(converter=by_value)
    k: int = static(converter=whole)

    @property
    def dim(self):
        return self.k

    def matrix(self, g: Matrix) -> Matrix:
        if isinstance(g, jax.Array):
            return self.sized(jnp.asarray(self.function(g), g.dtype))
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            found = self.function(np.asarray(g, np.float64))
            return self.sized(numbers("A representation's rho(g)", found, numpy=True, finite=False))

    def __repr__(self):
        name = getattr(self.function, "__name__", "function")
        return f"represent({self.group}, {name}, dim={self.k}{', checked by sampling' * self.sampled})"

    @classmethod
    def examples(cls):
        return [cls(Dihedral(3), _determinant, 1), cls(SpecialOrthogonal(2), _double_angle, 2)]


@door
def represent(
    group: Group,
    function: Callable | None = None,
    *,
    dim: Count | None = None,
    elements=None,
    generators=None,
) -> Rep:
    """Your own representation, checked: by a function of g, or by matrices.

    A function takes g (d, d) to rho(g) (dim, dim). Matrices are those of all `group.elements()`, in their
    order, or only those of `group.generators()`, which are then extended to the group.

    That products are kept is proven on every element and generator for matrices, and for a function on a group of up to
    5040 elements (those of S_7). On larger groups a function is checked by sampling, at 64 random pairs and a few
    probes: the representation then says so, in its print and as `rep.sampled`.
    """
    _one_way("represent", "a function of g", function, elements, generators)
    if function is not None:
        if dim is None:
            raise Refusal("represent takes the size of rho(g) beside the function. Write `represent(g, f, dim=k)`.")
        return Formula(group, function, dim)
    finite = _finite(group, "A table of matrices")
    images = _floats(elements if elements is not None else generators)
    k = images.shape[-1] if images.ndim else 0
    if dim is not None and dim != k:
        raise Refusal(f"represent reads the size of rho(g) from the matrices; got dim={dim} beside {said(images)}.")
    if elements is not None:
        return Tabulated(finite, Frozen(images))
    _shaped("generators", images, (len(finite.generators()), k, k))
    fits("A table of matrices", finite.order, k, k)
    return Tabulated(finite, Frozen(_extended(finite, np.eye(k), images, np.matmul)))


@door
def permutation(group: Group, points=None, *, elements=None, generators=None) -> Rep:
    """A finite group that permutes 0 … k−1, checked on every element: by points that it moves, or by lists of images.

    Points are rows (k, d) of R^d that the group maps to each other. Images p, with p[i] the image of i, are
    those under all `group.elements()`, in their order, or only under `group.generators()`.
    """
    finite = _finite(group, "A table of permutations")
    _one_way("permutation", "points", points, elements, generators)
    if points is not None:
        return Permuting(finite, Frozen(_moved(finite, _floats(points))))
    images = _permutations(elements if elements is not None else generators)
    if generators is not None:
        _shaped("generators", images, (len(finite.generators()), images.shape[-1]))
        fits("A table of permutations", finite.order, images.shape[-1])
        images = _extended(finite, np.arange(images.shape[-1]), images, lambda p, q: p[q])
    return Permuting(finite, Frozen(images))


@door
def regular(group: Group) -> Rep:
    """The left regular representation: one coordinate for each element h, sent to that of g h."""
    finite = _finite(group, "The regular representation")
    fits(f"The multiplication table of {group}", finite.order, finite.order)
    moved = [match(finite.elements(), s @ finite.elements()) for s in finite.generators()]
    return permutation(group, generators=np.array(moved, np.int64).reshape(-1, finite.order))


@door
def image(group: Group, h: Count, w: Count) -> Rep:
    """Rotations and flips of the plane on the pixels of an h × w image, row-major, x right and y up."""
    if group.dim != 2 or not isinstance(group, Finite) or np.any(group.generators() % 1):
        raise Refusal(
            f"An image is moved pixel by pixel by quarter turns and flips; got {group}. Write "
            "`Rotations(4)`, `Rotations(2)`, `Dihedral(4)`, `Dihedral(2)` or `Dihedral(1)`."
        )
    if h != w and np.any(group.generators()[:, 0, 1]):
        raise Refusal(f"Quarter turns move square images; got {h} × {w} under {group}. Crop or pad the image.")
    fits(f"The pixels moved by {group}", group.order, h, w)
    y, x = np.meshgrid((h - 1) / 2 - np.arange(h), np.arange(w) - (w - 1) / 2, indexing="ij")
    return permutation(group, np.stack([x.ravel(), y.ravel()], -1))


def _extended(group: Finite, identity: np.ndarray, images: np.ndarray, compose: Callable) -> np.ndarray:
    """The images of all elements, carried from the identity along the Cayley graph."""
    table: list = [identity] + [None] * (group.order - 1)
    todo = [0]
    for here in todo:
        for image, edges in zip(images, cayley(group), strict=True):
            there = int(edges[here])
            if table[there] is None:
                table[there] = compose(table[here], image)
                todo.append(there)
    return np.stack(table)


def _moved(group: Finite, points: Float[np.ndarray, "k d"]) -> Int[np.ndarray, "order k"]:
    if points.ndim != 2 or points.shape[1] != group.dim or not len(points) or len(distinct(points)) != len(points):
        raise Refusal(
            f"Points are different rows (k, {group.dim}) for {group}; got shape {points.shape}, or a repeat. "
            "Write each point once."
        )
    fits(f"The points moved by {group}", group.order, len(points))
    places = Places(points)
    table = np.stack([places.find(points @ g.T, 1e-6) for g in group.elements()])
    if np.any(table < 0):
        raise Refusal(
            f"A set of points is permuted when {group} maps it to itself; got points with an image that is none of "
            "them. Add the missing images."
        )
    return table


def _finite(group: Group, owner: str) -> Finite:
    return finite(owner, group, "Write `represent(group, function, dim=k)` for a group that cannot be listed.")


def _one_way(owner: str, first: str, *ways) -> None:
    if sum(way is not None for way in ways) != 1:
        raise Refusal(
            f"{owner} takes one of {first}, `elements=` or `generators=`; got none or several. Write one of them."
        )


def _permutations(values) -> Int[np.ndarray, "m k"]:
    found = _floats(values)
    if found.ndim != 2 or not found.shape[1] or np.any(np.sort(found, axis=1) != np.arange(found.shape[1])):
        raise Refusal(
            "A permutation holds each of 0 … k−1 once, in rows (m, k); got rows that do not. "
            "Write for instance `[(1, 2, 0)]`."
        )
    return found.astype(np.int64)


def _floats(values) -> np.ndarray:
    return np.atleast_1d(numbers("A representation's table", values, numpy=True))


def _shaped(of: str, table: np.ndarray, shape: tuple[int, ...]) -> None:
    if table.shape != shape:
        raise Refusal(
            f"A representation by its {of} takes an array of shape {shape} here; got {table.shape}. "
            f"List one for each of `group.{of}()`, in that order."
        )


def _row(group: Group, table: Frozen, g: Matrix):
    """The row of the table that belongs to g."""
    assert isinstance(group, Finite)
    return (jnp.asarray(table.array) if isinstance(g, jax.Array) else table.array)[group.index(g)]


def _determinant(g):
    return jnp.linalg.det(g)[None, None]


def _double_angle(g):
    return jnp.matmul(g, g)
