"""Every Action does what its matrices do, in NumPy and inside jit; images and sets are moved without matrices."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import haarflow as hf
from haarflow.algebra import fixed_space
from haarflow.algebra.acting import Action, ByGather, ByMatrices, Still, as_action, in_jax
from haarflow.algebra.base import Group
from haarflow.algebra.projection import ByMatrix, ByOrbits, Projection, by_orbits
from haarflow.learning.symmetry import Averaged
from haarflow.members import members

ACTIONS, REPS, PROJECTIONS = members(Action), members(hf.Rep), members(Projection)
every_action = pytest.mark.parametrize("action", ACTIONS, ids=lambda a: f"{type(a).__name__}-{a.dim}")
every_rep = pytest.mark.parametrize("rep", REPS, ids=str)
LARGE = {
    "images": hf.image_rep("dihedral", 28, 28, 3),
    "translations": hf.image_rep("translations", 32, 32),
    "sets": hf.point_set(hf.Symmetric(1000), 3),
}


@eqx.filter_jit
def batch(data, key):
    return data.batch(key)


def close(a, b, atol=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=atol)


def rows(*shape):
    return np.random.default_rng(shape).standard_normal(shape)


def moves_rows_as_its_matrices_do(action):
    z, matrices = rows(2, 3, action.dim), np.asarray(action.matrices())
    assert matrices.shape == (len(action), action.dim, action.dim)
    close(action.apply(z), np.einsum("gij,abj->gabi", matrices, z))
    close(action.apply(z[0, 0]), matrices @ z[0, 0])
    own = rows(len(action), 2, action.dim)
    close(action.apply_each(own), np.einsum("gij,gbj->gbi", matrices, own))
    close(action.apply_each(own[:, 0]), np.einsum("gij,gj->gi", matrices, own[:, 0]))
    close(action.mean_back(own), np.einsum("gji,gbj->bi", matrices, own) / len(action))


@every_action
def test_every_form_moves_rows_as_its_matrices_do(action):
    moves_rows_as_its_matrices_do(action)
    assert isinstance(action.apply(rows(2, action.dim)), np.ndarray)


@every_action
def test_inverses_traces_choices_and_gathers_are_those_of_the_matrices(action):
    matrices = action.matrices()
    close(action.inverse.matrices(), matrices.swapaxes(1, 2))
    close(action.traces(), np.trace(matrices, axis1=1, axis2=2))
    close(action.pick([2, 0, 2]).matrices(), matrices[[2, 0, 2]])
    close(action.pick(1).matrices(), matrices[1:2])
    for other in (action, action.inverse, ByMatrices(matrices[::-1].copy())):
        close((action @ other).matrices(), matrices @ other.matrices())
    assert action.merged().agrees(action)
    assert not action.agrees(action.pick(0))
    if action.permutes:
        assert action.gathers().agrees(action)
        assert as_action(matrices).agrees(action)


@every_action
def test_compiled_programs_carry_an_action_and_give_the_same(action):
    @jax.jit
    def inside(action, z, own, key):
        drawn = action.draw(key, 5)
        return action.apply(z), action.apply_each(own), action.mean_back(own), drawn.matrices(), action.matrices()

    z, own, key = jnp.asarray(rows(3, action.dim)), jnp.asarray(rows(len(action), action.dim)), jax.random.key(3)
    *found, drawn, matrices = inside(in_jax(action), z, own, key)
    for one, expected in zip(found, (action.apply(z), action.apply_each(own), action.mean_back(own)), strict=True):
        close(one, expected)
    close(drawn, action.matrices()[np.asarray(jax.random.randint(key, (5,), 0, len(action)))])
    close(matrices, action.matrices())


class Inverted(ByGather):
    """A planted fault: every index inverted."""

    def everywhere(self, z):
        return ByGather(np.argsort(self.index, axis=1), self.signs).everywhere(z)


class Unsigned(ByGather):
    """A planted fault: every sign dropped."""

    def one_by_one(self, z):
        return ByGather(self.index).one_by_one(z)


@pytest.mark.parametrize("kind", [Inverted, Unsigned])
def test_the_laws_see_an_index_inverted_and_a_sign_dropped(kind):
    right = ByGather.examples()[1]
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        moves_rows_as_its_matrices_do(kind(right.index, right.signs))


@every_rep
def test_a_representation_acts_as_its_matrices_whatever_the_form(rep):
    probes = rep.group.probes()
    action = rep.action(probes)
    close(action.matrices(), np.stack([rep(g) for g in probes]))
    assert ByMatrices(np.stack([rep(g) for g in probes])).agrees(action)
    moves_rows_as_its_matrices_do(action)
    for g, h in zip(range(len(probes)), reversed(range(len(probes))), strict=True):
        assert rep.action((probes[g] @ probes[h])[None]).agrees(action.pick(g) @ action.pick(h))
        z = rows(2, rep.dim)
        close(rep.apply(probes[g] @ probes[h], z), rep.apply(probes[g], rep.apply(probes[h], z)))


@every_rep
def test_drawn_elements_are_those_of_haar_in_every_representation(rep):
    z = rows(6, rep.dim)

    @jax.jit
    def inside(key):
        return rep.group.haar(key, 6), rep.acting(rep.group.draw(key, 6)).merged().apply_each(z)

    elements, moved = inside(jax.random.key(5))
    close(moved, [rep(g) @ row for g, row in zip(np.asarray(elements), z, strict=True)], atol=1e-10)
    assert rep.action(as_action(elements)).agrees(rep.action(elements))
    if isinstance(rep.group, hf.extend.Finite):
        close(rep.action().matrices(), rep.matrices())


@every_rep
def test_sums_products_and_homs_of_signed_permutations_are_such(rep):
    probes = rep.group.probes()
    if rep.action(probes).permutes:
        still = hf.trivial_rep(rep.group, 2)
        for made in (rep + rep, rep * rep, rep.hom(still + rep), rep.dual, 2 * rep, rep * still):
            action = made.action(probes)
            assert action.permutes
            assert as_action(np.stack([made(g) for g in probes])).agrees(action)


@pytest.mark.parametrize("found", PROJECTIONS, ids=lambda p: f"{type(p).__name__}-{p.dim}")
def test_projections_are_orthogonal_projectors(found):
    matrix, z = found.apply(np.eye(found.dim)), rows(2, 3, found.dim)
    close(matrix, matrix.T)
    close(matrix @ matrix, matrix)
    close(found.apply(z), z @ matrix)
    close(found.rest(z), z - z @ matrix)
    close(jax.jit(lambda found, z: found.apply(z))(in_jax(found), jnp.asarray(z)), z @ matrix)


TIED = hf.represent(hf.Cyclic(2), elements=[np.eye(3), [[0, -1, 0], [-1, 0, 0], [0, 0, -1]]])
"""Two coordinates that are tied with opposite signs, and one of which only zero is fixed_space."""


@pytest.mark.parametrize("rep", [*REPS, TIED], ids=str)
def test_orbits_project_as_the_matrix_does(rep):
    found = fixed_space.signed_generators(rep)
    if found is not None:
        z = rows(3, rep.dim)
        close(by_orbits(*fixed_space.orbits(*found)).apply(z), z @ rep.fixed_projector())


QUARTER, FLIP = hf.Dihedral(4).generators()


@pytest.mark.parametrize(("h", "w", "c"), [(4, 4, 1), (5, 5, 3), (3, 4, 2), (2, 5, 1)])
def test_images_are_moved_as_numpy_moves_them(h, w, c):
    picture = rows(h, w, c)

    def moved(rep, g):
        return rep.apply(g, picture.ravel()).reshape(h, w, c)

    flips, mirror, shifts = (hf.image_rep(name, h, w, c) for name in ("flips", "mirror", "translations"))
    np.testing.assert_array_equal(moved(flips, np.diag([1.0, -1.0])), picture[::-1])
    np.testing.assert_array_equal(moved(flips, np.diag([-1.0, 1.0])), picture[:, ::-1])
    np.testing.assert_array_equal(moved(mirror, np.diag([-1.0, 1.0])), picture[:, ::-1])
    down, right = shifts.group.generators()
    np.testing.assert_array_equal(moved(shifts, down @ down @ right), np.roll(picture, (2, 1), axis=(0, 1)))
    everywhere = shifts.action().apply(picture.ravel()).reshape(h, w, h, w, c)
    for i, j in np.ndindex(h, w):
        np.testing.assert_array_equal(everywhere[i, j], np.roll(picture, (i, j), axis=(0, 1)))
    for name in ("dihedral", "rotations"):
        if h == w:
            np.testing.assert_array_equal(moved(hf.image_rep(name, h, w, c), QUARTER), np.rot90(picture))
        else:
            with pytest.raises(hf.Refusal, match=f"Quarter turns move square images; got {h} × {w}"):
                hf.image_rep(name, h, w, c)


def test_named_groups_are_those_one_would_write():
    assert hf.image_rep("dihedral", 4, 4) == hf.image_rep(hf.Dihedral(4), 4, 4)
    assert hf.image_rep("translations", 3, 4, 2) == hf.image_rep(hf.Cyclic(3) * hf.Cyclic(4), 3, 4, 2)
    assert [hf.image_rep(name, 6, 6).group.order for name in ("dihedral", "rotations", "flips", "mirror")] == [
        8,
        4,
        4,
        2,
    ]
    assert LARGE["translations"].group.order == 1024


def test_points_of_a_set_change_places_with_all_their_columns():
    points, rep = rows(5, 2), hf.point_set(hf.Symmetric(5), 2)
    for action in (rep.action(rep.group.draw(1, 7)), rep.action().pick([3, 50])):
        for found in action.apply(points.ravel()).reshape(-1, 5, 2):
            assert sorted(map(tuple, found)) == sorted(map(tuple, points))
    assert not np.array_equal(found, points)


@pytest.mark.parametrize("name", LARGE)
def test_a_batch_is_augmented_within_twenty_megabytes(name):
    """What the compiled program needs beyond its arguments and results, for 128 samples in float64."""
    rep = LARGE[name]
    data = hf.augment(hf.Sample(rows(130, rep.dim), np.ones((130, 1)), 128), rep, hf.trivial_rep(rep.group))
    program = batch.lower(data, jax.random.key(0)).compile()
    assert program.compiled.memory_analysis().temp_size_in_bytes < 20e6
    found = np.asarray(program(data, jax.random.key(0))[0])
    before = np.asarray(data.data.batch(jax.random.key(0))[0])
    close(np.sort(found, axis=1), np.sort(before, axis=1), atol=0)
    assert np.mean(found != before) > 0.5


@pytest.mark.parametrize(("name", "dimension"), [("images", 3 * 105), ("translations", 1), ("sets", 3)])
def test_fixed_spaces_of_large_representations_are_found_by_orbits(name, dimension):
    """28 × 28 pixels have (784 + 2 · 28) / 8 = 105 orbits by Burnside: two of the eight fix a diagonal, five none."""
    rep = LARGE[name]
    assert rep.fixed_basis().shape == (rep.dim, dimension)
    assert isinstance(rep.projection(), ByOrbits)
    z = rows(2, rep.dim)
    projected = rep.project(z)
    close(projected, (z @ rep.fixed_basis()) @ rep.fixed_basis().T)
    close(rep.action(rep.group.draw(0, 3)).apply(projected), np.tile(projected, (3, 1, 1)))


def test_permutations_of_a_thousand_points_are_composed_as_indices():
    rep = LARGE["sets"]
    a, b = (rep.action(rep.group.draw(key, 4)) for key in (0, 1))
    z = rows(4, rep.dim)
    close((a @ b).apply_each(z), a.apply_each(b.apply_each(z)), atol=0)
    close((a.inverse @ a).apply_each(z), z, atol=0)


def test_inputs_and_labels_are_moved_by_the_same_elements():
    for rep in (hf.image_rep("dihedral", 3, 3), hf.image_rep("translations", 2, 3), hf.point_set(hf.Symmetric(4), 2)):
        xs = rows(20, rep.dim)
        found, labels = batch(hf.augment(hf.Sample(xs, xs), rep, rep), jax.random.key(2))
        close(found, labels, atol=0)
        assert np.mean(np.asarray(found) != xs) > 0.3


@pytest.mark.parametrize("signed", [False, True])
def test_units_are_averaged_by_gather_as_by_matrices(signed):
    group = hf.Hyperoctahedral(2) if signed else hf.Dihedral(4)
    on_x = hf.natural_rep(group) * hf.trivial_rep(group, 3) if signed else hf.image_rep(group, 3, 3)
    on_y = hf.natural_rep(group) if signed else on_x
    unit = hf.Perceptron(on_x.dim, on_y.dim, "tanh")
    mean = hf.average(unit, on_x, on_y)
    plain = Averaged(unit, jnp.asarray(on_x.matrices()), jnp.asarray(on_y.matrices()))
    assert isinstance(plain.on_y, ByMatrices)
    assert isinstance(mean.on_y, ByGather)

    @eqx.filter_jit
    def asked(unit, thetas, xs):
        weights = jnp.full(len(thetas), 0.2)
        feedback = unit.pullback(weights, thetas, xs, jnp.sin)
        return unit(thetas[0], xs[0]), unit.batched(thetas, xs), unit.weighted_sum(weights, thetas, xs), *feedback

    given = jnp.asarray(rows(5, unit.dim)), jnp.asarray(rows(4, on_x.dim))
    for one, other in zip(asked(mean, *given), asked(plain, *given), strict=True):
        close(one, other, atol=1e-14)


def test_a_large_restricted_field_goes_by_orbits_and_as_by_the_matrix():
    on_x = hf.image_rep("dihedral", 12, 12)
    unit = hf.Perceptron(144, 1, "tanh")
    action = unit.action(on_x, hf.trivial_rep(on_x.group))
    field = hf.Descend(hf.Risk(unit, hf.Sample(rows(5, 144), np.ones((5, 1)))))
    by_orbit, by_matrix = hf.restrict(field, action), hf.restrict(field, action.fixed_projector())
    assert isinstance(by_orbit.domain.projector, ByOrbits)
    assert isinstance(by_matrix.domain.projector, ByMatrix)
    cloud = hf.uniform(rows(4, unit.dim))
    close(by_orbit.begin(cloud).atoms, by_matrix.begin(cloud).atoms, atol=1e-14)
    moved = hf.Cloud(cloud.atoms + 1, cloud.weights)
    close(by_orbit.keep(cloud, moved).atoms, by_matrix.keep(cloud, moved).atoms, atol=1e-14)


class Circle(Group):
    """The least that a group needs: SO(2) again, without a list of classes."""

    @property
    def dim(self):
        return 2

    def draws(self, key, n):
        angle = jax.random.uniform(key, (n,), maxval=2 * np.pi)
        rows = [jnp.cos(angle), -jnp.sin(angle), jnp.sin(angle), jnp.cos(angle)]
        return jnp.stack(rows, axis=-1).reshape(n, 2, 2)

    def generators(self):
        return np.zeros((0, 2, 2))

    def lie_algebra(self):
        return np.array([[[0.0, -1.0], [1.0, 0.0]]])

    @classmethod
    def examples(cls):
        return [cls()]


def test_an_infinite_group_needs_no_classes():
    rep = hf.natural_rep(Circle())
    assert (rep * rep).fixed_basis().shape == (4, 2)
    points = hf.trivial_rep(Circle(), 50) * rep  # fifty points of the plane, turned together
    drawn = points.action(Circle().draw(0, 3))
    close(drawn.matrices()[1], scipy.linalg.block_diag(*[Circle().haar(0, 3)[1]] * 50))
    assert sum(leaf.size for leaf in jax.tree.leaves(drawn)) == 12
    with pytest.raises(hf.Refusal, match="takes a list that the group does not have"):
        hf.extend.character_dimension(rep)
    with pytest.raises(hf.Refusal, match="does not say what its classes are"):
        Circle().classes(1)


def test_a_still_action_is_not_written_out():
    action = Still(3, 10**12)
    assert (len(action), action.dim, action.pick([0, 1]).n) == (3, 10**12, 2)
    assert hf.trivial_rep(hf.Cyclic(2), 10**12).character(np.eye(2)) == 1e12
