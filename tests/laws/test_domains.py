"""Every domain: its projection is the nearest point, its velocities stay on it, and no scheme leaves it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics.domains import Box, Domain, Sphere, Subspace, restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
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
    others = length(np.asarray(ATOMS)[:, None] - np.asarray(inside)[None])
    assert (length(ATOMS - inside)[:, None] <= others + 1e-12).all()


@pytest.mark.parametrize("domain", members(Domain), ids=shown)
def test_velocities_along_a_domain_are_where_its_steps_go(domain):
    """The step that ends inside is `h · along` to first order; what is taken away is at a right angle to the rest."""
    inside, h = domain.project(ATOMS), 1e-6
    along = domain.along(inside, MOVES)
    np.testing.assert_allclose((domain.keep(inside, inside + h * MOVES) - inside) / h, along, atol=1e-4)
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


def test_refusals():
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
