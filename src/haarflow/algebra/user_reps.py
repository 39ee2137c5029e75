"""Representations that the user gives: by matrices, by a function of the element, or by moving points."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.algebra import proofs
from haarflow.algebra.acting import Action, ByGather, ByMatrices, as_action
from haarflow.algebra.base import Finite, Group, finite
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import fits, refuse_broken, whole
from haarflow.algebra.fixed_space import signed_generators
from haarflow.algebra.generated import Matrices
from haarflow.algebra.groups import Cyclic, Dihedral, PlanarRotations, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.products import Product, lift
from haarflow.algebra.proofs import cayley
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.tables import Frozen, Places, distinct, match, static
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

    def acting(self, moves):
        return _listed(self).chosen(_finite(self.group, "A table of matrices").places(moves))

    @classmethod
    def examples(cls):
        signs = np.linalg.det(Symmetric(3).elements())[:, None, None]
        return [cls(Symmetric(3), Frozen(signs)), cls(Cyclic(3), Frozen(PlanarRotations(3).elements()))]


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

    def acting(self, moves):
        return _listed(self).chosen(_finite(self.group, "A table of permutations").places(moves))

    @classmethod
    def examples(cls):
        turned = permutation_rep(Cyclic(4), generators=[(1, 0, 2)])
        return [turned, regular_rep(Symmetric(3)), image_rep(Dihedral(4), 3, 3), image_rep(Dihedral(1), 3, 2)]


class Formula(Rep):
    """A representation by a function g (d, d) -> rho(g) (k, k); in jax.numpy to be used inside jit."""

    function: Callable = static(converter=by_value)
    k: int = static(converter=whole)

    @property
    def dim(self):
        return self.k

    def acting(self, moves):
        fits(f"A table of {len(moves)} matrices of {self}", len(moves), self.k, self.k)
        matrices = moves.matrices()
        if isinstance(matrices, jax.Array):
            return ByMatrices(jax.vmap(self._traced)(matrices))
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return as_action(np.stack([self._plain(g) for g in matrices]))

    def _traced(self, g: Float[Array, "d d"]) -> Float[Array, "k k"]:
        return self._sized(jnp.asarray(self.function(g), g.dtype))

    def _plain(self, g: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
        return self._sized(numbers("A representation's rho(g)", self.function(g), numpy=True, finite=False))

    def _sized(self, matrix: Any) -> Any:
        """The image itself, where it is a matrix k × k."""
        if np.shape(matrix) != (self.k, self.k):
            raise Refusal(
                f"A representation on R^{self.k} gives matrices {self.k} × {self.k}; got the shape "
                f"{np.shape(matrix)}. Write the size of rho(g) as `dim=`."
            )
        return matrix

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
            raise Refusal(
                "represent takes the size of rho(g) beside the function; got none. Write `represent(g, f, dim=k)`."
            )
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
def permutation_rep(group: Group, points=None, *, elements=None, generators=None) -> Rep:
    """A finite group that permutes 0 … k−1, checked on every element: by points that it moves, or by lists of images.

    Points are rows (k, d) of R^d that the group maps to each other. Images p, with p[i] the image of i, are
    those under all `group.elements()`, in their order, or only under `group.generators()`.
    """
    finite = _finite(group, "A table of permutations")
    _one_way("permutation_rep", "points", points, elements, generators)
    if points is not None:
        return Permuting(finite, Frozen(_moved(finite, _floats(points))))
    images = _permutations(elements if elements is not None else generators)
    if generators is not None:
        _shaped("generators", images, (len(finite.generators()), images.shape[-1]))
        fits("A table of permutations", finite.order, images.shape[-1])
        images = _extended(finite, np.arange(images.shape[-1]), images, lambda p, q: p[q])
    return Permuting(finite, Frozen(images))


@door
def regular_rep(group: Group) -> Rep:
    """The left regular representation of a finite group, on R^|G|: g sends the coordinate of h to that of g h."""
    finite = _finite(group, "The regular representation")
    fits(f"The multiplication table of {group}", finite.order, finite.order)
    moved = [match(finite.elements(), s @ finite.elements()) for s in finite.generators()]
    return permutation_rep(group, generators=np.array(moved, np.int64).reshape(-1, finite.order))


@door
def image_rep(group: Group | str, h: Count, w: Count, channels: Count = 1) -> Rep:
    """A group that moves the pixels of images h × w × channels, flattened row by row with the channels last.

    The group is named, or given as rotations and flips of the plane (x right, y up), or as `Cyclic(h) * Cyclic(w)`:
    "dihedral" for the eight quarter turns and flips, "rotations" for the four quarter turns, both of square images;
    "flips" left–right and up–down, "mirror" left–right alone, and "translations", of which there are h w and where
    what leaves on one side comes back on the other.

        on_x = image_rep("dihedral", 28, 28, channels=3)       # on rows of 28 · 28 · 3 = 2352 numbers
        on_y = trivial_rep(on_x.group, 10)                     # ten labels that stay
    """
    group = _named(group, h, w) if isinstance(group, str) else group
    if isinstance(group, Product) and _shifts(group) == (h, w):
        pixels = lift(natural_rep(Cyclic(h)), group, 0) * lift(natural_rep(Cyclic(w)), group, 1)
    else:
        pixels = _turned(group, h, w)
    return pixels if channels == 1 else pixels * trivial_rep(group, channels)


@door
def point_set(group: Group, columns: Count) -> Rep:
    """A group that permutes the m rows of tables m × columns, flattened row by row: sets of m points.

    on_x = point_set(Symmetric(1000), 3)       # sets of 1000 points in space, in whatever order
    """
    moves = signed_generators(natural_rep(group))
    if moves is None or np.any(moves[1] < 0):
        raise Refusal(
            f"A set of points is moved by a group that permutes them; got {group}. Write `Symmetric(m)` for all "
            "permutations of m points, or `Permutations([...])` for some."
        )
    return natural_rep(group) * trivial_rep(group, columns)


def _named(name: str, h: int, w: int) -> Group:
    groups = {
        "dihedral": lambda: Dihedral(4),
        "rotations": lambda: PlanarRotations(4),
        "flips": lambda: Dihedral(2),
        "mirror": lambda: Matrices([np.diag([-1.0, 1.0])]),
        "translations": lambda: Cyclic(h) * Cyclic(w),
    }
    if name not in groups:
        raise Refusal(
            f"An image_rep's group is one of {', '.join(groups)}, or a group of the plane; got {said(name)}. Write "
            "image_rep('dihedral', 28, 28), for example."
        )
    return groups[name]()


def _shifts(group: Product) -> tuple[int, int] | None:
    """The two sizes of a product of two groups of shifts."""
    match group:
        case Product(a=Cyclic(n=h), b=Cyclic(n=w)):
            return h, w
    return None


def _turned(group: Group, h: int, w: int) -> Rep:
    """Rotations and flips of the plane on the pixels of an h × w image."""
    if group.dim != 2 or not isinstance(group, Finite) or np.any(group.generators() % 1):
        raise Refusal(
            f"An image is moved pixel by pixel by quarter turns and flips; got {group}. Write "
            "`PlanarRotations(4)`, `PlanarRotations(2)`, `Dihedral(4)`, `Dihedral(2)` or `Dihedral(1)`; or "
            "`Cyclic(h) * Cyclic(w)` "
            "for the translations of an h × w image."
        )
    if h != w and np.any(group.generators()[:, 0, 1]):
        raise Refusal(f"Quarter turns move square images; got {h} × {w} under {group}. Crop or pad the image.")
    fits(f"The pixels moved by {group}", group.order, h, w)
    y, x = np.meshgrid((h - 1) / 2 - np.arange(h), np.arange(w) - (w - 1) / 2, indexing="ij")
    return permutation_rep(group, np.stack([x.ravel(), y.ravel()], -1))


def _extended(group: Finite, identity: np.ndarray, images: np.ndarray, compose: Callable) -> np.ndarray:
    """The images of all elements, carried from the identity along the Cayley graph."""
    table: list = [identity] + [None] * (group.order - 1)
    todo = [0]
    for here in todo:
        for move, edges in zip(images, cayley(group), strict=True):
            there = int(edges[here])
            if table[there] is None:
                table[there] = compose(table[here], move)
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


@remembered
def _listed(rep: Tabulated | Permuting) -> Action:
    """The rows of a table as they act, in the order of the elements."""
    if isinstance(rep, Tabulated):
        return as_action(rep.table.array)
    return ByGather(np.argsort(rep.table.array, axis=1).astype(np.int32))  # coordinate p(i) takes what was at i


def _determinant(g):
    return jnp.linalg.det(g)[None, None]


def _double_angle(g):
    return jnp.matmul(g, g)
