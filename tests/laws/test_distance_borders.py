"""Every public distance at its borders: sizes from 1e-100 to 1e100, places far away, doubled and massless atoms.

The members are found by their signatures: whatever is among the distances and takes a cloud `mu` and no group meets
these laws. One that does not scale like a length says so in DEGREES. Distances under a group are in
tests/oracles/test_quotients.py.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.contents import public
from haarflow.measures.bounds import Bounds
from haarflow.measures.clouds import Cloud, uniform

KEY = jax.random.key(7)
DEGREES = {"rmd": 0, "mmd_squared": 0, "si_rmd": 0, "wi_rmd": 0, "orbit_mmd_squared": 0}
EXACT = {"w2_bounds": "w2", "wi_bounds": "wi_distance"}
SIZES = [1e-100, 1e-12, 1e-8, 1e-3, 1e4, 1e12, 1e100]


def distances() -> dict:
    """The distances that take a cloud called mu, and no group by necessity."""
    functions = [each for address, each in public().items() if address.startswith("distances.")]
    functions = [each for each in functions if inspect.isfunction(each) and "mu" in _names(each)]
    return {each.__name__: each for each in functions if not _needs(each, "under")}


def _needs(function, name: str) -> bool:
    found = inspect.signature(function).parameters.get(name)
    return found is not None and found.default is found.empty


def _names(function) -> list[str]:
    return list(inspect.signature(function).parameters)


MEMBERS = distances()
OF_TWO = [name for name in MEMBERS if "nu" in _names(MEMBERS[name])]
OF_ONE = [name for name in MEMBERS if "nu" not in _names(MEMBERS[name])]


def value(name: str, mu, nu=None, **options):
    """The member at these clouds; what else its signature asks for is filled in."""
    p = mu.p if isinstance(mu, Cloud) else np.shape(mu)[-1]
    group = hf.Signs(1) if p == 1 else hf.SpecialOrthogonal(2) if name == "circle_correction" else hf.PlanarRotations(3)
    given = {"key": KEY, "mu": mu, "nu": nu, "rep": hf.natural_rep(group), "n": 4}
    member = MEMBERS[name]
    asked = [each for each in inspect.signature(member).parameters.values() if each.default is each.empty]
    return member(*(given[each.name] for each in asked), **options)


def agree(name: str, found, expected, rtol: float) -> None:
    """Equal to this precision; bounds may differ, and bracket the exact value alike."""
    if isinstance(found, Bounds):
        assert found.lower <= expected * (1 + rtol), found
        assert found.upper >= expected * (1 - rtol), found
        assert found.upper <= 2 * expected, found
    else:
        assert np.isclose(float(found), expected, rtol=rtol, atol=0), name


def truth(name: str, *clouds) -> float:
    return float(value(EXACT.get(name, name), *clouds))


@functools.cache
def cloud(seed: int, n: int, p: int, *, even: bool = False) -> Cloud:
    """A lopsided cloud whose atoms have few digits, so that many shifts move it exactly."""
    draw = np.random.default_rng([seed, n, p])
    weights = np.ones(n) if even else draw.random(n) + 0.05
    return Cloud(np.round(draw.normal(size=(n, p)) + 0.4 * seed, 3) * 1000 / 1024, weights / weights.sum())


def clouds(name: str, p: int, *, even: bool = False) -> list[Cloud]:
    return [cloud(1, 9, p, even=even), cloud(2, 6, p, even=even)][: 1 + (name in OF_TWO)]


def moved(one: Cloud, *, times: float = 1.0, plus: float = 0.0) -> Cloud:
    return Cloud(np.asarray(one.atoms) * times + plus, one.weights)


def dimensions() -> list:
    return [(name, p) for name in MEMBERS for p in (1, 2) if (name, p) != ("circle_correction", 1)]


def test_every_public_function_of_the_distances_is_found():
    from haarflow.measures import bounds, distances, invariance

    rooms = {room.__name__ for room in (bounds, distances, invariance)}
    found = {thing.__name__ for thing in public().values() if thing.__module__ in rooms}
    assert found - {"Bounds"} == set(MEMBERS)
    assert set(DEGREES) | set(EXACT) <= set(MEMBERS)
    assert len(MEMBERS) >= 14


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("name", "p"), dimensions())
def test_a_distance_scales_with_its_input(name, p, even):
    given = clouds(name, p, even=even)
    known = truth(name, *given)
    for size in SIZES:
        found = value(name, *(moved(one, times=size) for one in given))
        agree(name, found, known * size ** DEGREES.get(name, 1), 1e-9)


@pytest.mark.parametrize(("name", "p"), dimensions())
def test_a_distance_is_unchanged_by_order_by_doubled_and_by_massless_atoms(name, p):
    given = clouds(name, p)
    known = truth(name, *given)
    for at, one in enumerate(given):
        atoms, weights = np.asarray(one.atoms), np.asarray(one.weights)
        order = np.random.default_rng(3).permutation(one.n)
        shuffled = Cloud(atoms[order], weights[order])
        doubled = Cloud(np.concatenate([atoms] * 2), np.concatenate([0.25 * weights, 0.75 * weights]))
        massless = Cloud(np.pad(atoms, ((1, 2), (0, 0)), constant_values=50.0), np.pad(weights, (1, 2)))
        for other in (shuffled, doubled, massless):
            agree(name, value(name, *given[:at], other, *given[at + 1 :]), known, 1e-9)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", OF_TWO)
def test_a_distance_is_zero_between_a_law_and_itself(name, p):
    for even in (True, False):
        (one,) = clouds("si_rmd", p, even=even)
        order = np.random.default_rng(3).permutation(one.n)
        for other in (one, Cloud(np.asarray(one.atoms)[order], np.asarray(one.weights)[order])):
            found = value(name, one, other)
            assert (found.upper if isinstance(found, Bounds) else found) <= 1e-12, (name, even)


@pytest.mark.parametrize("name", [name for name in OF_ONE if name != "circle_correction"])
def test_a_distance_to_a_symmetry_is_zero_on_what_has_it(name):
    rep = hf.natural_rep(hf.PlanarRotations(3))
    (one,) = clouds(name, 2)
    still = one.project(rep) if name.startswith("si") else one.orbit(rep)
    found = value(name, still)
    assert (found.upper if isinstance(found, Bounds) else float(found)) <= 1e-7


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", OF_TWO)
def test_a_distance_is_the_same_from_both_sides(name, p):
    one, two = clouds(name, p)
    agree(name, value(name, two, one), truth(name, one, two), 1e-9)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", [name for name in OF_TWO if name != "rmd"])
def test_a_distance_is_the_same_far_from_the_origin(name, p):
    """A shift by 2³⁰ that leaves every digit of the atoms in place."""
    for even in (True, False):
        one, two = clouds(name, p, even=even)
        near = [Cloud(np.round(np.asarray(each.atoms) * 1024) / 1024, each.weights) for each in (one, two)]
        far = [moved(each, plus=2.0**30) for each in near]
        agree(name, value(name, *far), truth(name, *near), 1e-9)


@pytest.mark.parametrize(("name", "p"), dimensions())
def test_a_table_of_atoms_stands_for_the_cloud_of_equal_weights(name, p):
    given = clouds(name, p, even=True)
    tables = [np.asarray(one.atoms) for one in given]
    known = truth(name, *(uniform(one) for one in tables))
    for kind in (np.asarray, np.ndarray.tolist, jnp.asarray):
        agree(name, value(name, *(kind(one) for one in tables)), known, 1e-12)
    whole = [np.round(10 * one).astype(int) for one in tables]
    agree(name, value(name, *whole), truth(name, *(uniform(one.astype(float)) for one in whole)), 1e-12)


@pytest.mark.parametrize(("name", "p"), dimensions())
def test_a_cloud_in_single_precision_has_single_precision(name, p):
    """Atoms rounded to 24 binary digits move every distance by less than 1e-6 of it, computed in float64 or not."""
    given = clouds(name, p)
    single = [Cloud(np.asarray(one.atoms, np.float32), np.asarray(one.weights, np.float32)) for one in given]
    assert single[0].weights.dtype == jnp.float32
    agree(name, value(name, *single), truth(name, *given), 1e-5)
