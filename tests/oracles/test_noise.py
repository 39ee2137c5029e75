"""The noise: the published Threefry, normal moments and tails, independent across steps and particles.

Fixed keys; every bound is five standard errors or more, a false-alarm rate below 1e-6 a line.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from haarflow.errors import Refusal
from haarflow.fast.noise import _cosine, _radius, gaussian, threefry, unrolled

M = 1_000_000
Z = np.asarray(gaussian(jax.random.key(11), (M // 4, 4), jnp.float64))


def test_the_words_are_threefry():
    key = jax.random.key_data(jax.random.key(123))
    counters = jnp.arange(64, dtype=jnp.uint32)
    ours = threefry(key, counters[:32], counters[32:])
    np.testing.assert_array_equal(jnp.concatenate(ours), threefry_2x32((key[0], key[1]), counters))


def test_thirteen_rounds_have_their_published_answers():
    """The known answers that come with Random123."""
    for word, answer in [(0, (0x9D1C5EC6, 0x8BD50731)), (0xFFFFFFFF, (0xFD36D048, 0x2D17272C))]:
        words = jnp.full(2, word, jnp.uint32)
        assert tuple(map(int, threefry(words, words[0], words[1], rounds=13))) == answer


def test_both_precisions_share_their_noise():
    key = jax.random.key(3)
    for p in (3, 12):
        double, single = (gaussian(key, (50, p), dtype) for dtype in (jnp.float64, jnp.float32))
        assert (double.dtype, single.dtype) == (jnp.float64, jnp.float32)
        np.testing.assert_allclose(double, single, rtol=1e-5, atol=1e-6)


def test_the_short_polynomials_of_float32_are_right_to_rounding():
    edges = np.concatenate([np.arange(4), 2 ** np.arange(32), 2**32 - 1 - np.arange(1000)])
    drawn = np.random.default_rng(0).integers(2**32, size=M)
    words = np.concatenate([edges, drawn]).astype(np.uint32)
    halves, signs = words >> 1, 1 - 2.0 * (words & 1)
    squares, cosines = -2 * np.log((halves + 0.5) * 2.0**-31), signs * np.cos(halves * (np.pi / 2**32))
    radius, cosine = (np.asarray(made(jnp.asarray(words), jnp.float32), float) for made in (_radius, _cosine))
    assert (np.abs(radius**2 - squares) < 4e-7 * (1 + squares)).all()
    assert (np.abs(cosine - cosines) < 3e-7).all()
    np.testing.assert_allclose(_radius(jnp.asarray(words), jnp.float64) ** 2, squares, rtol=1e-12)
    np.testing.assert_allclose(_cosine(jnp.asarray(words), jnp.float64), cosines, atol=1e-14)


def test_moments():
    for power, moment in [(1, 0), (2, 1), (3, 0), (4, 3), (6, 15)]:
        error = np.std(Z**power) / np.sqrt(M)
        assert abs((Z**power).mean() - moment) < 5 * error


def test_the_law_and_its_tails():
    from scipy.stats import kstest, norm

    assert kstest(Z.ravel(), "norm").pvalue > 1e-6
    for level in (3.0, 4.0):
        expected = 2 * norm.sf(level) * M
        assert abs((np.abs(Z) > level).sum() - expected) < 5 * np.sqrt(expected)
    assert 4.2 < np.abs(Z).max() < 6.7


def test_coordinates_particles_and_steps_are_independent():
    later = np.asarray(gaussian(jax.random.key(12), (M // 4, 4), jnp.float64))
    columns = np.concatenate([Z, later, np.roll(Z, 1, axis=0), Z**2 - 1, later**2 - 1], axis=1)
    correlation = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    assert np.abs(correlation).max() < 5.5 / np.sqrt(M // 4)


def test_a_particle_has_its_noise_whatever_the_others_do():
    key = jax.random.key(5)
    whole = gaussian(key, (10, 5))
    np.testing.assert_array_equal(whole[:4], gaussian(key, [4, 5]))
    np.testing.assert_array_equal(whole[6:], gaussian(key, (4, 5), first=6))


def test_a_coordinate_has_its_noise_whatever_the_others_do():
    """Short and long rows are counted in different ways."""
    key = jax.random.key(6)
    long = gaussian(key, (9, 21))
    for p in (1, 4, 7, 8, 20):
        np.testing.assert_allclose(long[2:, :p], gaussian(key, (7, p), first=2), rtol=1e-14)


def test_a_shape_that_is_no_matrix_is_refused():
    with pytest.raises(Refusal, match=r"a row for each particle; got the shape \(5,\)\. Write \(n, p\)"):
        gaussian(jax.random.key(0), (5,))


@pytest.mark.parametrize(
    ("key", "shape", "more", "words"),
    [
        (None, (2, 3), {}, "gaussian's key is one key; got None"),
        (jax.random.split(jax.random.key(0), 3), (2, 3), {}, "gaussian's key is one key; got an array of shape"),
        (0, (2.5, 3), {}, r"gaussian's shape\[0\] is a whole number; got 2.5"),
        (0, (-1, 3), {}, r"a row for each particle; got the shape \(-1, 3\)"),
        (0, 7, {}, "gaussian's shape is a list; got 7"),
        (0, (2, 3), {"dtype": "numbers"}, "Gaussian noise is float32 or float64; got 'numbers'"),
        (0, (2, 3), {"dtype": jnp.float16}, "Gaussian noise is float32 or float64; got"),
        (0, (2, 3), {"first": -1}, "counts particles from 0 to .*; got 2 from -1"),
        (0, (2, 3), {"first": 2**32 - 1}, "counts particles from 0 to .*; got 2 from 4294967295"),
        (0, (10**9, 10**9), {}, "would need .* of memory; .* Draw it in blocks"),
    ],
)
def test_what_is_no_noise_is_refused_in_a_sentence(key, shape, more, words):
    with pytest.raises(Refusal, match=words):
        gaussian(key, shape, **more)


def test_a_seed_a_raw_key_and_a_key_draw_the_same():
    wanted = gaussian(jax.random.key(7), (3, 2))
    for key in (7, np.int32(7), jax.random.PRNGKey(7)):
        np.testing.assert_array_equal(gaussian(key, np.array([3, 2])), wanted)


def test_double_precision_without_64_bits_is_refused():
    with jax.enable_x64(False), pytest.raises(Refusal, match="float64.* before jax.config.update"):
        gaussian(0, (2, 3), jnp.float64)


DRAWS = {
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 7)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (3, 2))),
    "float64": lambda key: jax.random.normal(key, (5, 3), jnp.float64),
    "float32": lambda key: jax.random.normal(key, (5, 3), jnp.float32),
    "integers": lambda key: jax.random.randint(key, (9,), 0, 77),
    "bytes": lambda key: jax.random.bits(key, (4,), jnp.uint8),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_unrolled_keys_draw_what_jax_draws(draw):
    keys = jax.random.split(jax.random.key(9), 2)
    for key in keys:
        np.testing.assert_array_equal(draw(unrolled(key)), draw(key))
    np.testing.assert_array_equal(jax.vmap(draw)(unrolled(keys)), jax.vmap(draw)(keys))


def test_a_key_of_another_kind_stays_itself():
    key = jax.random.key(0, impl="rbg")
    assert unrolled(key) is key
