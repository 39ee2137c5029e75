"""Discovery: the pull off a subspace, its test, and the search on the published example."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.errors import Refusal
from haarflow.experiments import _published as published
from haarflow.experiments.discovery import trial
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.splits import folds
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.invariance import si_rmd
from haarflow.practice.discover import Discovery, angles, discover
from haarflow.practice.escape import HeldOnSubspace, Training, escape, excess, pull

KEY = jax.random.key(0)
SETTING = trial("swap of two coordinates")._replace(particles=12, steps=60)
BASIS = published.ACTION.fixed_basis()
TRAINING = Training(KEY, 0.4, 1, 8)  # one number of replicates, so that the tests share two programs


@eqx.filter_jit
def at(field, cloud):
    return field(KEY, cloud)


def test_a_held_cloud_stays_and_remembers_the_whole_velocity():
    cloud = SETTING.start(KEY)
    double = uniform(jnp.concatenate([cloud.atoms, jnp.zeros_like(cloud.atoms)], axis=1))
    tangent = at(HeldOnSubspace(SETTING.field, jnp.asarray(published.PROJECTOR)), double).velocity
    plain = at(SETTING.field, cloud).velocity
    np.testing.assert_allclose(tangent[:, :4] + tangent[:, 4:], plain, atol=1e-15)
    np.testing.assert_allclose(tangent[:, :4] @ (np.eye(4) - published.PROJECTOR), 0, atol=1e-15)
    np.testing.assert_allclose(tangent[:, 4:] @ published.PROJECTOR, 0, atol=1e-15)


def test_a_held_cloud_keeps_the_growth_of_its_field():
    cloud = SETTING.start(KEY)
    double = uniform(jnp.concatenate([cloud.atoms, jnp.zeros_like(cloud.atoms)], axis=1))
    field = Descend(SETTING.field.functional, growth=0.5)
    held = at(HeldOnSubspace(field, jnp.asarray(published.PROJECTOR)), double)
    np.testing.assert_allclose(held.growth, at(field, cloud).growth, atol=1e-15)


@pytest.mark.slow
def test_one_step_pulls_as_far_as_it_escapes():
    """After a single step a held and a free training have left by the same vector."""
    start = SETTING.start(KEY)
    free, held = (look(SETTING.field, start, BASIS, TRAINING) for look in (escape, pull))
    np.testing.assert_allclose(free.residuals, held.residuals, atol=1e-15)
    np.testing.assert_allclose(free.atoms, held.atoms, atol=1e-15)
    assert np.abs(free.residuals).max() > 1e-4


def test_a_field_for_each_replicate_is_the_same_training_one_by_one():
    together, apart = (
        pull(fields, SETTING.start(KEY), BASIS, TRAINING._replace(steps=3))
        for fields in (SETTING.field, [SETTING.field] * 8)
    )
    np.testing.assert_allclose(apart.residuals, together.residuals, atol=1e-13)
    assert np.abs(np.diff(apart.residuals, axis=0)).max() > 1e-3


@pytest.mark.slow
def test_replicates_on_folds_are_not_fooled_by_the_accidents_of_a_sample():
    """At E = E^G, 12 symmetric laws seen through 160 rows each: shared rows reject, folds do so as often as stated.

    Twelve tests at level 0.1 reject more than 5 times with probability 5e-4.
    """
    shared, dealt = [], []
    for seed in range(12):
        xs, ys = published.task("weak", 160).batch(jax.random.key(seed))
        sample = Sample(xs, ys, 10)
        training = TRAINING._replace(key=jax.random.key(100 + seed), steps=100)
        fields = [Descend(Risk(published.UNIT, one, "square")) for one in (sample, *folds(KEY, sample, 8))]
        for found, field in ((shared, fields[0]), (dealt, fields[1:])):
            found.append(excess(pull(field, SETTING.start(KEY), BASIS, training).residuals).p_values[0])
    assert np.sum(np.array(dealt) <= 0.1) <= 5
    assert np.sum(np.array(shared) <= 0.1) >= 8


def test_the_mean_rule_adds_the_weighted_mean():
    residuals = np.random.default_rng(0).normal(size=(4, 3, 2))
    weights = np.array([0.5, 0.3, 0.2])
    found = excess(residuals * np.sqrt(weights)[None, :, None], rule="mean", weights=weights)
    mean = weights @ residuals.mean(axis=0)
    np.testing.assert_allclose(found.directions[0], mean / np.linalg.norm(mean), atol=1e-14)
    np.testing.assert_allclose(found.sizes, np.linalg.norm(mean), atol=1e-14)


def test_the_distance_of_an_escape_is_rmd():
    seen = escape(SETTING.field, SETTING.start(KEY), BASIS, TRAINING._replace(steps=20))
    apart = [float(si_rmd(uniform(atoms * np.sqrt(12)), published.ACTION)) ** 2 for atoms in seen.atoms]
    np.testing.assert_allclose(seen.rmd2, np.median(apart), rtol=1e-10)


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


@pytest.mark.slow
def test_the_test_has_its_stated_size_on_training_itself():
    """60 null trainings at level 0.1: the count is in its 99.9% binomial band."""
    found = []
    for key in jax.random.split(jax.random.key(1), 60):
        seen = pull(SETTING.field, SETTING.start(KEY), BASIS, TRAINING._replace(key=key, steps=40))
        found.append(excess(seen.residuals).p_values[0])
    assert binomtest(int(np.sum(np.array(found) <= 0.1)), 60, 0.1).pvalue > 1e-3


@pytest.fixture(scope="module")
def found():
    told = []
    found = trial("swap of two coordinates").search(KEY, progress=told.append)
    assert told == sorted(told)
    assert 0 <= told[0] < told[-1] <= 1
    return found


def test_the_published_example_is_found_and_its_model_trains_inside(found):
    assert found.dimension == 2
    assert found.angles(published.ACTION).max() < 1e-5
    assert found.sharing().groups() == [[(0, 1), (3, 1)], [(1, 1), (2, 1)]]
    listed = [symmetry.matrices()[0].tolist() for symmetry in found.symmetries(shape=(2, 2))]
    assert listed == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert [step.added for step in found.history] == [1, 1, 0]
    words = "A subspace of dimension 2 in R^4, found in 3 rounds: what pulls training away is no more than noise"
    assert str(found).startswith(words)
    start = found.start(SETTING.start(KEY))
    path = flow(found.restrict(SETTING.field), found.scheme(1e-6), start, key=KEY, dt=0.4, steps=50)
    assert float(si_rmd(path.cloud, published.ACTION)) < 1e-12
    assert float(jnp.abs(path.cloud.atoms - start.atoms).max()) > 0.01


def test_the_rounds_of_a_tested_search_are_held_trainings(found):
    begin, rest = jax.random.split(KEY)
    setting = trial("swap of two coordinates")
    seen = pull(setting.field, setting.start(begin), np.zeros((4, 0)), setting.training(jax.random.fold_in(rest, 0)))
    np.testing.assert_allclose(found.history[0].sizes, excess(seen.residuals).sizes, rtol=1e-12)


def test_data_without_the_symmetry_fill_the_space():
    broken = trial("swap of two coordinates")._replace(data=published.task("arbitrary", 20, atoms=10))
    found = broken.search(KEY)
    assert found.dimension == 4
    assert found.ended == "it is the whole space"
    few = broken.search(KEY, most=1)
    assert few.dimension == 1
    assert few.ended == "no more than 1 directions were asked for, and training still leaves them"


def test_the_published_procedure_runs_with_either_rule():
    small = SETTING._replace(steps=200, deviation=0.25)
    for rule in ("mean", "singular"):
        found = small.search(KEY, rule=rule, stop="threshold", threshold=0.02, replicates=1, most=3)
        assert 1 <= found.dimension <= 3
        assert found.history[-1].rmd2 <= 0.02 or found.dimension == 3
        np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(found.dimension), atol=1e-12)
    loose = small.search(KEY, stop="threshold", threshold=0.45, replicates=1)
    assert loose.dimension == 1
    assert loose.ended.startswith("training stays, with RMD² = ")


def test_angles_count_the_dimensions_that_differ():
    np.testing.assert_allclose(angles(np.eye(3)[:, :1], np.eye(3)[:, :2]), [90, 0], atol=1e-9)
    assert angles(np.zeros((3, 0)), np.zeros((3, 0))).size == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rule": "median"}, "A discovery rule is one of mean, singular; got 'median'"),
        ({"stop": "never"}, "A discovery stop is one of test, threshold; got 'never'"),
        ({"replicates": 2}, "splits at least 4 replicates into halves; got replicates=2. Write replicates=16"),
        ({"false_expansion": 2.0}, "A false-expansion probability is between 0 and 1; got 2.0"),
        ({"threshold": -1.0}, "A threshold is an RMD², from 0 to below ½; got -1.0. Write threshold=1e-3"),
        ({"ties": -1}, "Ties are in standard errors, from 0 on; got -1.0. Write ties=5, or 0 to tie nothing"),
        ({"directions": 0}, "discover's directions is a whole number >= 1; got 0"),
        ({"most": 0}, "discover's most is a whole number >= 1; got 0"),
        ({"steps": 0}, "discover's steps is a whole number >= 1; got 0"),
        ({"replicates": 0, "stop": "threshold"}, "discover's replicates is a whole number >= 1; got 0"),
        ({"steps": 2.5}, "discover's steps is a whole number; got 2.5"),
        ({"key": "x"}, "discover's key is one key; got 'x'"),
        ({"dt": 0}, "discover's dt is a finite number > 0; got 0"),
        ({"dt": float("nan")}, "discover's dt is a finite number; got nan"),
        ({"temperature": -1}, "discover's temperature is a finite number >= 0; got -1"),
        ({"field": 3}, "discover's field is a Field or a list; got 3"),
        ({"field": []}, "one for each replicate; got 0 fields"),
        ({"start": np.ones((2, 4))}, "discover's start is a Cloud; got an array of shape"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(Refusal, match=sentence):
        discover(**{"field": SETTING.field, "start": SETTING.start(KEY), "key": 3, "dt": 0.1, "steps": 1, **options})


def test_angles_and_starts_of_another_size_are_refused():
    found = Discovery(np.eye(4)[:, :2], [])
    with pytest.raises(Refusal, match=r"angles's known has the shape \(p, m\) with p = 4 .*; got the shape \(3, 3\)"):
        found.angles(np.eye(3))
    with pytest.raises(Refusal, match=r"projector on R\^3|in R\^3"):
        found.start(uniform(np.ones((2, 3))))
    with pytest.raises(Refusal, match="finite number; got nan"):
        found.scheme(float("nan"))


def test_refusals_of_fields_and_starts():
    start, options = SETTING.start(KEY), {"key": KEY, "dt": 0.1, "steps": 1}
    with pytest.raises(Refusal, match="one for each replicate; got 5 fields and replicates=4. Leave replicates out"):
        discover([SETTING.field] * 5, start, replicates=4, **options)
    several = Cloud(jnp.ones((2, 3, 4)), jnp.full((2, 3), 1 / 3))
    with pytest.raises(Refusal, match=r"starts from one Cloud \(n, p\); got atoms \(2, 3, 4\). Write one cloud"):
        discover(SETTING.field, several, **options)


def test_a_training_that_diverges_is_refused_in_a_sentence():
    """At such a step the penalty alone overshoots by 10⁴ each time."""
    with pytest.raises(Refusal, match="without meeting an infinite number; got one after .* Write a smaller dt"):
        escape(SETTING.field, SETTING.start(KEY), BASIS, TRAINING._replace(dt=1e8, steps=100))
