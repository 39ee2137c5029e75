"""Domains: what is refused; their laws are in test_members.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.domains import Space, restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.regions import Box, Sphere, Torus
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty

KEY = jax.random.key(4)
ATOMS, MOVES = (3 * jax.random.normal(key, (30, 4)) for key in jax.random.split(KEY))


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
