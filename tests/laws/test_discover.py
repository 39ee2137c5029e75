"""Discovery: the pull off a subspace, its test, and the search on the published example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from haarflow.dynamics.flow import flow
from haarflow.errors import Refusal
from haarflow.experiments import _discovery as given
from haarflow.experiments import _published as published
from haarflow.measures.clouds import uniform
from haarflow.measures.invariance import si_rmd
from haarflow.practice.discover import angles, discover
from haarflow.practice.escape import Held, Training, escape, excess, pull

KEY = jax.random.key(0)
SETTING = given.setting("swap of two coordinates")._replace(particles=12, steps=60)
BASIS = published.ACTION.fixed_basis()


def test_a_held_cloud_stays_and_remembers_the_whole_velocity():
    cloud = SETTING.start(KEY)
    double = uniform(jnp.concatenate([cloud.atoms, jnp.zeros_like(cloud.atoms)], axis=1))
    tangent = Held(SETTING.field, jnp.asarray(published.PROJECTOR))(KEY, double).atoms
    plain = SETTING.field(KEY, cloud).atoms
    np.testing.assert_allclose(tangent[:, :4] + tangent[:, 4:], plain, atol=1e-15)
    np.testing.assert_allclose(tangent[:, :4] @ (np.eye(4) - published.PROJECTOR), 0, atol=1e-15)
    np.testing.assert_allclose(tangent[:, 4:] @ published.PROJECTOR, 0, atol=1e-15)


def test_one_step_pulls_as_far_as_it_escapes():
    """After a single step a held and a free training have left by the same vector."""
    training = Training(KEY, 0.4, 1, 3)
    start = SETTING.start(KEY)
    free, held = (look(SETTING.field, start, BASIS, training) for look in (escape, pull))
    np.testing.assert_allclose(free.residuals, held.residuals, atol=1e-15)
    np.testing.assert_allclose(free.atoms, held.atoms, atol=1e-15)
    assert np.abs(free.residuals).max() > 1e-4


def test_the_distance_of_an_escape_is_rmd():
    seen = escape(SETTING.field, SETTING.start(KEY), BASIS, Training(KEY, 0.4, 20, 1))
    cloud = uniform(seen.atoms[0] * np.sqrt(12))
    np.testing.assert_allclose(seen.rmd2, float(si_rmd(cloud, published.ACTION)) ** 2, rtol=1e-10)


def test_noise_is_judged_as_noise_and_a_small_mean_is_found():
    """500 null draws, particles sharing their noise: p-values are uniform (false-alarm rate 1e-3)."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(500, 16, 1, 3)) * rng.uniform(0.1, 2, size=(500, 1, 8, 1))
    draws = shared + 0.1 * rng.normal(size=(500, 16, 8, 3))
    p_values = np.array([excess(one).p_values[0] for one in draws])
    assert kstest(p_values, "uniform").pvalue > 1e-3
    signal = np.outer(np.linspace(-1, 1, 8), [0.0, 1.0, 0.0])
    found = excess(0.5 * draws[0] + 2 * signal[None])
    assert found.p_values[0] < 1e-3
    assert abs(found.directions[0] @ np.array([0.0, 1.0, 0.0])) > 0.98


def test_the_test_has_its_stated_size_on_training_itself():
    """60 null trainings at level 0.1: the count is in its 99.9% binomial band."""
    training = Training(KEY, 0.4, 60, 10)
    found = []
    for key in jax.random.split(jax.random.key(1), 60):
        seen = pull(SETTING.field, SETTING.start(KEY), BASIS, training._replace(key=key))
        found.append(excess(seen.residuals).p_values[0])
    assert binomtest(int(np.sum(np.array(found) <= 0.1)), 60, 0.1).pvalue > 1e-3


@pytest.fixture(scope="module")
def found():
    return given.setting("swap of two coordinates", particles=24, horizon=15).search(KEY)


def test_the_published_example_is_found_and_its_model_trains_inside(found):
    assert found.dimension == 2
    assert found.angles(published.ACTION).max() < 1e-5
    assert found.sharing().groups() == [[(0, 1), (3, 1)], [(1, 1), (2, 1)]]
    listed = [symmetry.matrices()[0].tolist() for symmetry in found.symmetries(shape=(2, 2))]
    assert listed == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert [step.added for step in found.history] == [1, 1, 0]
    start = found.start(SETTING.start(KEY))
    path = flow(found.restrict(SETTING.field), found.scheme(1e-6), start, key=KEY, dt=0.4, steps=50)
    assert float(si_rmd(path.cloud, published.ACTION)) < 1e-12
    assert float(jnp.abs(path.cloud.atoms - start.atoms).max()) > 0.01


def test_data_without_the_symmetry_fill_the_space():
    broken = given.setting("swap of two coordinates", particles=24, horizon=15)
    found = broken._replace(data=published.task("arbitrary", 20)).search(KEY)
    assert found.dimension == 4


def test_the_published_procedure_runs_with_either_rule():
    small = SETTING._replace(steps=200, deviation=0.25)
    for rule in ("mean", "singular"):
        found = small.search(KEY, rule=rule, stop="threshold", threshold=0.02, replicates=1, most=3)
        assert 1 <= found.dimension <= 3
        assert found.history[-1].rmd2 <= 0.02 or found.dimension == 3
        np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(found.dimension), atol=1e-12)


def test_angles_count_the_dimensions_that_differ():
    np.testing.assert_allclose(angles(np.eye(3)[:, :1], np.eye(3)[:, :2]), [90, 0], atol=1e-9)
    assert angles(np.zeros((3, 0)), np.zeros((3, 0))).size == 0


def test_refusals():
    options = {"key": KEY, "dt": 0.1, "steps": 1}
    start = SETTING.start(KEY)
    with pytest.raises(Refusal, match="A discovery rule is one of mean, singular; got 'median'"):
        discover(SETTING.field, start, rule="median", **options)
    with pytest.raises(Refusal, match="A discovery stop is one of test, threshold; got 'never'"):
        discover(SETTING.field, start, stop="never", **options)
    with pytest.raises(
        Refusal, match="splits at least 4 replicates into halves; got replicates=2. Write replicates=16"
    ):
        discover(SETTING.field, start, replicates=2, **options)
    with pytest.raises(Refusal, match="A false-expansion probability is between 0 and 1; got 2.0"):
        discover(SETTING.field, start, false_expansion=2.0, **options)
    with pytest.raises(Refusal, match="adds directions >= 1 a round; got replicates=12, directions=0"):
        discover(SETTING.field, start, directions=0, **options)
