"""Domains: what is refused; their laws are in test_members.py."""

import jax
import pytest

from haarflow.dynamics.domains import Box, Sphere, restrict
from haarflow.dynamics.fields import Descend
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty

KEY = jax.random.key(4)
ATOMS, MOVES = (3 * jax.random.normal(key, (30, 4)) for key in jax.random.split(KEY))


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
