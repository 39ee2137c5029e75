"""Every domain: its projection is the nearest point, its velocities stay on it, and no scheme leaves it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics.domains import Domain, Space, Subspace, restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.regions import Box, Sphere, Torus
from haarflow.dynamics.schemes import Langevin, Optax
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import uniform
from haarflow.members import members

KEY = jax.random.key(4)
DOMAINS = [domain for domain in members(Domain) if getattr(domain, "through", "origin") == "origin"]
ATOMS, MOVES = (3 * jax.random.normal(key, (30, 4)) for key in jax.random.split(KEY))


def shown(domain):
    return type(domain).__name__


def length(vectors):
    return np.linalg.norm(vectors, axis=-1)


@pytest.mark.parametrize("domain", DOMAINS, ids=shown)
def test_the_projection_is_the_nearest_point(domain):
    """Against 30 other points of the domain for each point, and against itself: what is inside stays."""
    inside = domain.project(ATOMS)
    np.testing.assert_allclose(domain.project(inside), inside, atol=1e-14)
    others = np.stack([length(domain.apart(ATOMS, jnp.broadcast_to(one, ATOMS.shape))) for one in inside], axis=1)
    assert (length(domain.apart(ATOMS, inside))[:, None] <= others + 1e-12).all()


@pytest.mark.parametrize("domain", members(Domain), ids=shown)
def test_velocities_along_a_domain_are_where_its_steps_go(domain):
    """The step that ends inside is `h · along` to first order; what is taken away is at a right angle to the rest."""
    inside, h = domain.project(ATOMS), 1e-6
    along = domain.along(inside, MOVES)
    np.testing.assert_allclose(domain.apart(inside, domain.keep(inside, inside + h * MOVES)) / h, along, atol=1e-4)
    np.testing.assert_allclose(jnp.sum(along * (MOVES - along), axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(domain.along(inside, along), along, atol=1e-12)


@pytest.mark.parametrize("domain", members(Domain), ids=shown)
def test_no_scheme_leaves_a_domain(domain):
    """Adam with noise on top, from a start off the domain, under many keys."""
    field, cloud = restrict(Descend(Penalty(0.3)), domain), uniform(ATOMS)
    if isinstance(domain, Subspace) and domain.through == "start":
        field = restrict(Descend(Penalty(0.3)), domain.projector.matrix, through="start")
    scheme = Langevin(Optax(optax.adam(1.0)), 0.1)
    end = flow(field, scheme, cloud, key=jax.random.split(KEY, 2), dt=0.3, steps=20).cloud.atoms
    begun = field.begin(cloud).atoms
    for run in end:
        np.testing.assert_allclose(domain.keep(begun, run), run, atol=1e-13)
        assert np.abs(run - begun).max() > 0.1


@pytest.mark.parametrize("domain", [one for one in DOMAINS if not isinstance(one, Space | Subspace)], ids=shown)
def test_boxes_cover_a_bounded_domain(domain):
    """Every point of the domain is the projection of one in a box, and no two of a box are brought further apart.

    A search is a proof by these two: a box then holds no value further from that at its centre than the constant says.
    """
    low, high = domain.cover(4)
    inside = np.asarray(domain.project(ATOMS))
    out = (
        inside / np.abs(inside).max(axis=1, keepdims=True) * np.abs(low).max() if isinstance(domain, Sphere) else inside
    )
    held = ((low[None] - 1e-12 <= out[:, None]) & (out[:, None] <= high[None] + 1e-12)).all(axis=2)
    assert held.any(axis=1).all()
    np.testing.assert_allclose(domain.project(jnp.asarray(out)), inside, atol=1e-12)
    draw = np.random.default_rng(0)
    for one, other in zip(low, high, strict=True):
        pair = [jnp.asarray(draw.uniform(one, other, size=(200, 4))) for _ in range(2)]
        apart = length(domain.apart(*map(domain.project, pair)))
        assert (apart <= length(pair[1] - pair[0]) + 1e-12).all()


def test_a_torus_closes_on_itself():
    near, far = jnp.array([[0.05, 0.5]]), jnp.array([[0.95, 0.7]])
    np.testing.assert_allclose(Torus().apart(near, far), [[-0.1, 0.2]], atol=1e-15)
    np.testing.assert_array_equal(Torus().project(jnp.array([[-1e-20, 1.0]])), [[0.0, 0.0]])
    np.testing.assert_allclose(Torus([1.0, 4.0]).project(jnp.array([[1.25, -0.5]])), [[0.25, 3.5]], atol=1e-15)


def test_refusals():
    with pytest.raises(Refusal, match="A Torus has a period > 0, one for all coordinates or a row of them; got 0.0"):
        Torus(0.0)
    with pytest.raises(Refusal, match=r"A Torus of 2 coordinates holds points of R\^2; got a cloud in R\^4"):
        Torus([1.0, 2.0]).project(ATOMS)
    with pytest.raises(Refusal, match="A Space says nothing of how boxes cover it"):
        Space().cover(2)
    with pytest.raises(Refusal, match="A Sphere's radius is a finite number > 0; got 0"):
        Sphere(0.0)
    with pytest.raises(Refusal, match="A Box's low is below its high; got 1.0 and -1.0. Exchange them"):
        Box(1.0, -1.0)
    with pytest.raises(Refusal, match=r"two bounds, numbers or rows of one length; got the shapes \(\) and \(2,\)"):
        Box(0.0, [1.0, 2.0])
    with pytest.raises(Refusal, match=r"A Box of 2 coordinates holds points of R\^2; got a cloud in R\^4"):
        Box([0.0, 0.0], [1.0, 2.0]).project(ATOMS)
    with pytest.raises(Refusal, match="got through='start' and a Sphere. Write a representation"):
        restrict(Descend(Penalty(1.0)), Sphere(), through="start")
    with pytest.raises(Refusal, match="restrict's domain is a Domain or a Rep or an array or a mapping; got 'x'"):
        restrict(Descend(Penalty(1.0)), "x")
    with pytest.raises(Refusal, match="got one that is restricted already"):
        restrict(restrict(Descend(Penalty(1.0)), Sphere()), Sphere())
