"""The laws of groups and representations: closed, exactly Haar, and the same in NumPy and in compiled programs."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from haarflow.algebra.base import Finite, Group, element
from haarflow.algebra.characters import character_dimension
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.algebra.tables import match
from haarflow.errors import Refusal
from haarflow.practice.laws import law, require

DRAWS = 20_000
ENTRIES = 16_000  # of the moments of a group, see draws_have_the_moments_of_haar
LISTED = 2_000  # elements of a group whose products are all looked at


def _gap(a, b) -> float:
    """The largest difference, infinite where one of them is not a number."""
    found = np.abs(np.asarray(a) - np.asarray(b)).max(initial=0.0)
    return float(found) if np.isfinite(found) else np.inf


@functools.lru_cache(maxsize=4)
def _drawn(group: Group) -> np.ndarray:
    """Drawn in a compiled program, where flows draw."""
    found = np.asarray(jax.jit(lambda key: group.haar(key, DRAWS))(jax.random.key(11)))
    require(found.shape == (DRAWS, group.dim, group.dim), f"{DRAWS} draws make an array of shape {found.shape}.")
    return found


@law(Group, 1e-13)
def generators_are_orthogonal_and_the_lie_algebra_is_skew(group):
    """Both are matrices (m, d, d) in float64."""
    generators, lie = group.generators(), group.lie_algebra()
    for name, found in (("generators", generators), ("the Lie algebra", lie)):
        require(found.shape[1:] == (group.dim, group.dim), f"{name} have the shape {found.shape}.")
        require(found.dtype == np.float64, f"{name} are of {found.dtype}.")
    gram = np.swapaxes(generators, 1, 2) @ generators
    return max(_gap(gram, np.broadcast_to(np.eye(group.dim), gram.shape)), _gap(lie, -np.swapaxes(lie, 1, 2)))


@law(Finite, 0.0)
def elements_make_a_group_with_the_identity_first(group):
    """The number of products and inverses that are not among the elements, or are there twice."""
    if group.order > LISTED:
        return None
    elements, places = group.elements(), np.arange(group.order)
    require(elements.shape == (group.order, group.dim, group.dim), f"the elements have the shape {elements.shape}.")
    require(np.array_equal(elements[0], np.eye(group.dim)), "the first element is not the identity.")
    twice = np.sum(match(elements, elements) != places)
    missing = sum(np.sum(np.sort(match(elements, g @ elements)) != places) for g in elements)
    return twice + missing + np.sum(match(elements, np.swapaxes(elements, 1, 2)) < 0)


@law(Finite, 0.0)
def generators_make_all_the_elements(group):
    """The number of elements that no word in the generators reaches."""
    if group.order > LISTED:
        return None
    elements, reached, todo = group.elements(), {0}, [0]
    for here in todo:
        fresh = {int(match(elements, (elements[here] @ s)[None])[0]) for s in group.generators()} - reached
        reached |= fresh
        todo += sorted(fresh)
    require(min(reached) >= 0, "a product of generators is none of the elements.")
    return group.order - len(reached)


@law(Group, 1e-12)
def draws_are_elements(group):
    """Orthogonal matrices, and of a finite group among its elements."""
    found = _drawn(group)
    if isinstance(group, Finite) and group.order <= LISTED:
        require(np.all(match(group.elements(), found) >= 0), "some draws are none of the elements.")
    gram = np.swapaxes(found, 1, 2) @ found
    return _gap(gram, np.broadcast_to(np.eye(group.dim), gram.shape))


@law(Group, 0.05)
def draws_have_the_moments_of_haar(group):
    """The mean of g, g⊗g, g⊗g⊗g over draws is the projector on the fixed space, entry by entry.

    Entries lie in [−1, 1], so by Hoeffding an entry is off by 0.05 at 20000 draws with probability below 3e-11, and one
    of the 16000 entries of a group with probability below 5e-7; the key is fixed.
    """
    d, found = group.dim, 0.0
    for power in (power for power in (1, 2, 3) if d ** (2 * power) <= ENTRIES):
        mean = sum(_moment(g, power) for g in np.array_split(_drawn(group), 20)) / DRAWS
        projector = (natural_rep(group) ** power).fixed_projector()
        found = max(found, _gap(mean, projector))
    return found


def _moment(g: np.ndarray, power: int) -> np.ndarray:
    """The sum over draws of the Kronecker power."""
    d = g.shape[1]
    if power == 1:
        return g.sum(axis=0)
    two = np.einsum("nij,nkl->nikjl", g, g, optimize=True)
    if power == 2:
        return two.sum(axis=0).reshape(d**2, d**2)
    three = np.tensordot(two, g, axes=(0, 0)).transpose(0, 1, 4, 2, 3, 5)
    return three.reshape(d**3, d**3)


@law(Finite, 6.0)
def draws_are_uniform_on_the_elements(group):
    """The number of zeros of the p-value of chi-square over the elements: six, at a fixed key, raise an alarm."""
    import scipy.stats

    if not 1 < group.order <= LISTED:
        return None
    counts = np.bincount(match(group.elements(), _drawn(group)), minlength=group.order)
    return -np.log10(max(scipy.stats.chisquare(counts).pvalue, 1e-300))


@law(Group, 1e-11)
def classes_integrate_the_moments_of_the_trace(group):
    """The sum of weights · trace(g)^k is the dimension of the fixed space of the k-th power; a group may do without."""
    try:
        elements, weights = group.classes(4)
    except Refusal:
        return None
    traces = np.trace(elements, axis1=1, axis2=2)
    powers = [power for power in (1, 2, 3) if group.dim ** (2 * power) <= ENTRIES]
    dimensions = [(natural_rep(group) ** power).fixed_basis().shape[1] for power in powers]
    gaps = [abs(np.sum(weights * traces**power) - size) for power, size in zip(powers, dimensions, strict=True)]
    return max(abs(np.sum(weights) - 1), *gaps)


@law(Group, 0.0)
def groups_are_constants(group):
    """One that is made again is equal, with an equal hash, and a compiled program sees no arrays in it."""
    return _unlike_a_constant(group)


def _unlike_a_constant(thing: Group | Rep) -> float:
    leaves = len(jax.tree.leaves(thing))
    require(not leaves, f"{leaves} of its fields are seen by compiled programs. Write `eqx.field(static=True)`.")
    again = jax.tree.unflatten(jax.tree.structure(thing), [])
    return float(again != thing) + float(hash(again) != hash(thing))


@law(Group, 1e-12)
def probes_belong_to_the_group(group):
    """The elements on which representations are checked, the identity first."""
    probes = group.probes()
    require(np.array_equal(probes[0], np.eye(group.dim)), "the first probe is not the identity.")
    if isinstance(group, Finite) and group.order <= LISTED:
        require(np.all(match(group.elements(), probes) >= 0), "some probes are none of the elements.")
    gram = np.swapaxes(probes, 1, 2) @ probes
    return _gap(gram, np.broadcast_to(np.eye(group.dim), gram.shape))


@law(Group, 0.0)
def every_group_knows_its_elements_from_others(group):
    """How many draws, in both precisions, are taken for strangers, and how many strangers for elements."""
    drawn = np.asarray(group.haar(7, 5))
    wrong = sum(not _is_element(group, g.astype(kind)) for g in drawn for kind in (np.float64, np.float32))
    return wrong + sum(_is_element(group, other) for g in drawn for other in _strangers(group, g))


def _is_element(group: Group, g: np.ndarray) -> bool:
    try:
        return element(group, g) is not None
    except Refusal:
        return False


def _strangers(group: Group, g: np.ndarray) -> Iterator[np.ndarray]:
    """Matrices that are surely no elements: off, of another size, not a number, or between elements."""
    yield from (2 * g, g + 1e-3, np.pad(g, 1), g * np.nan)
    if group.dim > 1 and isinstance(group, Finite):
        skew = np.triu(np.ones((group.dim, group.dim)), 1)
        yield np.asarray(scipy.linalg.expm(0.01 * (skew - skew.T))) @ g


@law(Rep, 1e-12)
def products_and_lengths_are_kept(rep):
    """M_gh = M_g M_h, the identity is the identity, and every matrix is orthogonal, in float64."""
    probes, one = rep.group.probes(), np.eye(rep.dim)
    tables = [rep(g) for g in probes]
    both = [*zip(probes, tables, strict=True)]
    require(all(isinstance(m, np.ndarray) and m.dtype == np.float64 for m in tables), "a matrix is not in float64.")
    require(all(m.shape == (rep.dim, rep.dim) for m in tables), f"a matrix is not {rep.dim} × {rep.dim}.")
    gaps = [_gap(tables[0], one), *(_gap(m.T @ m, one) for m in tables)]
    gaps += [_gap(rep(g.T), m.T) for g, m in both]
    gaps += [_gap(rep(g @ h), a @ b) for g, a in both for h, b in both]
    return max(gaps)


@law(Rep, 1e-12)
def compiled_matrices_are_those_of_numpy(rep):
    """Mapped over draws inside a compiled program, as flows do; `apply` too."""
    draws = rep.group.haar(jax.random.key(1), 6)
    z = jax.random.normal(jax.random.key(2), (6, rep.dim))
    mapped, moved = jax.jit(lambda rep, gs, z: (jax.vmap(rep)(gs), jax.vmap(rep.apply)(gs, z)))(rep, draws, z)
    matrices = np.stack([rep(g) for g in np.asarray(draws)])
    return max(_gap(mapped, matrices), _gap(moved, jnp.einsum("bij,bj->bi", matrices, z)))


@law(Rep, 1e-12)
def apply_is_the_matrix_times_each_row(rep):
    """On arrays of any number of axes, of NumPy and of JAX."""
    z = np.random.default_rng(0).standard_normal((3, 2, rep.dim))
    probes = rep.group.probes()
    gaps = [_gap(rep.apply(g, z), np.einsum("ij,abj->abi", rep(g), z)) for g in probes]
    gaps += [_gap(rep.apply(g, z[0, 0]), rep(g) @ z[0, 0]) for g in probes]
    return max(*gaps, _gap(rep.apply(jnp.asarray(probes[-1]), jnp.asarray(z)), rep.apply(probes[-1], z)))


@law(Rep, 1e-11)
def the_derivative_exponentiates_to_the_representation(rep):
    """exp(t dM(a)) = M(exp(t a)) along the Lie algebra."""
    sides = [
        (scipy.linalg.expm(0.7 * rep.derivative(a)), rep(np.asarray(scipy.linalg.expm(0.7 * a))))
        for a in rep.group.lie_algebra()
    ]
    return max((_gap(*pair) for pair in sides), default=None)


@law(Rep, 1e-12)
def signs_and_characters_are_those_of_the_matrix(rep):
    """Where a representation says which signed permutation it is, that is its matrix to the bit."""
    gaps = [0.0]
    for g in rep.group.probes():
        gaps.append(abs(float(rep.character(g)) - np.trace(rep(g))))
        found = rep.signed(g)
        if found is not None:
            matrix = np.zeros((rep.dim, rep.dim))
            matrix[found[0], np.arange(rep.dim)] = found[1]
            gaps.append(_gap(matrix, rep(g)))
    return max(gaps)


@law(Rep, 1e-12)
def the_projector_is_the_haar_average(rep):
    """Symmetric, idempotent, moved by no element; of a finite group the mean of all matrices."""
    projector, basis = rep.fixed_projector(), rep.fixed_basis()
    z = np.random.default_rng(1).standard_normal((4, rep.dim))
    gaps = [_gap(basis.T @ basis, np.eye(basis.shape[1])), _gap(projector @ projector, projector)]
    gaps += [_gap(projector, projector.T), _gap(rep.project(z), z @ projector)]
    gaps += [_gap(rep(g) @ projector, projector) for g in rep.group.probes()]
    if isinstance(rep.group, Finite) and rep.group.order <= LISTED:
        require(rep.matrices().shape == (rep.group.order, rep.dim, rep.dim), "there is not a matrix for each element.")
        gaps.append(_gap(rep.matrices().mean(axis=0), projector))
    return max(gaps)


@law(Rep, 0.0)
def the_character_formula_gives_the_dimension(rep):
    """The mean of the character is the dimension of the fixed space, where the group says what its classes are."""
    try:
        return abs(character_dimension(rep) - rep.fixed_basis().shape[1])
    except Refusal:
        return None


@law(Rep, 0.0)
def representations_are_constants(rep):
    """One that is made again is equal, with an equal hash, and a compiled program sees no arrays in it."""
    return _unlike_a_constant(rep)
