"""The energy of particles and pairs against closed forms, and minimisers that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.energy_rates import dissipation, weak_form_rate
from haarflow.dynamics.fields import Tangent
from haarflow.dynamics.optimality import first_variation, optimality_gap, polish
from haarflow.dynamics.pairwise import Pairwise, pairwise, sampling_excess
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Quadratic

LINE = Cloud(np.array([[1.0], [3.0]]), np.array([0.25, 0.75]))
RISK = Risk(Quadratic(1), Sample(np.ones((1, 1)), np.full((1, 1), 2.0)))  # f = ∫θ² dmu against 2


def test_a_network_on_one_point_has_the_energy_of_its_second_moment():
    energy = pairwise(RISK)
    np.testing.assert_allclose(energy(LINE), (7.0 - 2.0) ** 2 / 2, rtol=1e-14)
    alone, together = energy.sums(LINE)
    np.testing.assert_allclose(alone, [-2.0, -18.0])
    np.testing.assert_allclose(together, [[1.0, 9.0], [9.0, 81.0]])
    np.testing.assert_allclose(first_variation(energy, LINE, jnp.array([[2.0]])), [4 * 5.0])


def test_the_rates_are_those_of_the_closed_form():
    """Psi = 5θ², so ∇Psi = 10θ: ∫|∇Psi|² = 100·7, and Var Psi = 25·(0.25·1 + 0.75·81 − 49)."""
    np.testing.assert_allclose(dissipation(RISK, LINE), -700.0)
    np.testing.assert_allclose(dissipation(RISK, LINE, transport=0.0, growth=2.0), -2 * 25 * 12.0)
    tangent = Tangent(jnp.array([[1.0], [-2.0]]), jnp.array([3.0, -1.0]))
    rate = weak_form_rate(LINE, tangent, lambda theta: jnp.sum(theta**3))
    np.testing.assert_allclose(rate, 0.25 * (3 * 1 + 3 * 1) + 0.75 * (27 * -2 + -1 * 27))


def test_sampling_costs_half_the_variance_of_one_output():
    np.testing.assert_allclose(sampling_excess(RISK, LINE, 5), (0.25 * 1 + 0.75 * 81 - 49) / 10)


def test_attraction_and_confinement_settle_on_the_known_atoms():
    """V = (θ² − 1)² / 4 plus a tilt that no pair feels: two atoms start, the lower well wins or both hold by U."""
    energy = Pairwise(lambda theta: jnp.sum((theta**2 - 1) ** 2) / 4, lambda a, b: a[0] * b[0])
    settled = polish(energy, Cloud(np.array([[-0.7], [0.8], [0.9]]), np.array([0.3, 0.3, 0.4])), merge=0.2)
    order = np.argsort(settled.atoms[:, 0])
    np.testing.assert_allclose(settled.atoms[order, 0], [-1.0, 1.0], atol=1e-7)
    np.testing.assert_allclose(settled.weights, [0.5, 0.5], atol=1e-7)
    places = jnp.linspace(-2, 2, 401)[:, None]
    assert abs(optimality_gap(energy, settled, places)) < 1e-10
    assert optimality_gap(energy, uniform(np.array([[0.5], [1.5]])), places) > 0.1


def test_the_gap_is_to_the_lowest_place_or_atom():
    """Psi = 5θ² is 35 on average over the line's atoms, 1.25 at ½, and 5 at the lower atom."""
    np.testing.assert_allclose(optimality_gap(RISK, LINE, jnp.array([[0.5], [2.0]])), 35 - 1.25)
    np.testing.assert_allclose(optimality_gap(RISK, LINE, jnp.array([[2.0]])), 35 - 5)


def _double(theta):
    return jnp.stack([theta[0], theta[0]])


BAD = {
    "a vector for V": (
        lambda: Pairwise(lambda theta: theta, lambda a, b: 0.0)(LINE),
        "The one_body of a Pairwise takes a particle \\(1,\\) to one",
    ),
    "a vector for U": (
        lambda: Pairwise(lambda theta: 0.0, lambda a, b: _double(a)).variation(LINE),
        "two particles .* one real number; got an array \\(2,\\)",
    ),
    "a word for V": (lambda: Pairwise(lambda theta: "x", lambda a, b: 0.0)(LINE), "to one real number; got an error, "),
    "no function": (lambda: Pairwise(3, lambda a, b: 0.0), "A Pairwise's one_body is a function; got 3"),
    "a constant that is none": (lambda: Pairwise(jnp.sum, jnp.dot, np.nan), "A Pairwise's constant is a finite number"),
    "a lopsided U": (
        lambda: Pairwise(lambda theta: 0.0, lambda a, b: a[0] * b[0] ** 2).variation(LINE),
        "a symmetric function of two particles; got .* one way and .* the other",
    ),
    "too many pairs": (
        lambda: Pairwise(jnp.sum, jnp.dot)(uniform(np.ones((1_000_000, 1)))),
        "1000000 x 1000000 pairs of a cloud would need 8 TB",
    ),
    "no risk": (lambda: pairwise(Penalty(1.0)), "pairwise's risk is a Risk; got a Penalty"),
    "a negative rate": (lambda: dissipation(RISK, LINE, growth=-1.0), "dissipation's growth is a finite number >= 0"),
    "another tangent": (
        lambda: weak_form_rate(LINE, Tangent(jnp.ones((3, 1))), jnp.sum),
        r"a tangent of the cloud's shape \(2, 1\); got \(3, 1\)",
    ),
    "a test of vectors": (
        lambda: weak_form_rate(LINE, Tangent(jnp.ones((2, 1))), lambda theta: theta),
        r"A test function takes a particle .* got an array \(1,\) of float64",
    ),
    "no draws": (lambda: sampling_excess(RISK, LINE, 0), "sampling_excess's m is a whole number >= 1; got 0"),
    "places elsewhere": (lambda: first_variation(RISK, LINE, np.ones((3, 2))), r"places in R\^1; got places \(3, 2\)"),
    "one place as a row": (
        lambda: optimality_gap(RISK, LINE, np.ones(3)),
        r"has the shape \(m, p\); got the shape \(3,\)",
    ),
    "places that are none": (lambda: optimality_gap(RISK, LINE, [[np.nan]]), "holds finite numbers; got nan"),
    "a distance below zero": (lambda: polish(RISK, LINE, merge=-1.0), "polish's merge is a finite number >= 0"),
    "no minimum": (
        lambda: polish(Penalty(1.0, lambda theta: -theta[0]), LINE),
        "polish ends at a local minimum; got .* still falling",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_has_no_answer_is_refused_in_a_sentence(case):
    call, words = BAD[case]
    with pytest.raises(Refusal, match=words):
        call()


def test_lists_and_whole_numbers_are_welcome():
    np.testing.assert_allclose(first_variation(RISK, LINE, [[2]]), [4 * 5.0])
    assert optimality_gap(RISK, LINE, [[2]]) == optimality_gap(RISK, LINE, np.array([[2.0]], np.float32))
    np.testing.assert_allclose(sampling_excess(RISK, LINE, 5.0), sampling_excess(RISK, LINE, np.int64(5)))


def test_small_functionals_settle_as_well():
    cloud = Cloud(np.array([[-0.7], [0.8]]), np.array([0.5, 0.5]))
    for scale in (1e-14, 1e6):
        settled = polish(Penalty(scale, lambda theta: (theta[0] ** 2 - 1) ** 2), cloud)
        np.testing.assert_allclose(np.sort(settled.atoms[:, 0]), [-1.0, 1.0], atol=1e-6)


def test_single_precision_settles_as_well():
    energy = Pairwise(lambda theta: jnp.sum((theta**2 - 1) ** 2) / 4, lambda a, b: a[0] * b[0])
    with jax.enable_x64(False):
        settled = polish(energy, uniform(np.array([[-0.7], [0.8]], np.float32)))
    np.testing.assert_allclose(np.sort(settled.atoms[:, 0]), [-1.0, 1.0], atol=1e-6)


def test_refusals():
    with pytest.raises(Refusal, match="half-square Risk over a whole Sample; got the loss 'square' over Sample"):
        pairwise(Risk(RISK.unit, RISK.data, "square"))
    with pytest.raises(Refusal, match="polish keeps the atoms heavier than `least`; got none above 2"):
        polish(RISK + Penalty(1.0), LINE, least=2.0)
    with pytest.raises(Refusal, match=r"polish moves up to 2000 numbers; got 1001 atoms in R\^1"):
        polish(RISK, uniform(np.arange(1001.0)[:, None]))
