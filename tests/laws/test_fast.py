"""The fast forms are the plain ones: units, whole flows; small arrays computed once; and one thread is one thread."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.experimental.layout
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.fast import blocks
from haarflow.fast.materialise import materialised
from haarflow.fast.switch import fast, plain
from haarflow.members import members
from haarflow.models.units import Dense, Unit

FUSED = [unit for unit, *_ in members(Unit) if unit.fused() is not None]
optimised = pytest.mark.optimised


@eqx.filter_jit
def both(form, weights, thetas, xs):
    """The weighted sum and the pullback of the sine."""
    return form.weighted_sum(weights, thetas, xs), *form.pullback(weights, thetas, xs, jnp.sin)


@optimised
@pytest.mark.parametrize("unit", FUSED, ids=str)
@pytest.mark.parametrize("samples", [4, 70])
def test_a_fused_form_is_the_formula(unit, samples):
    """More samples than are written out one by one, and fewer."""
    draw = np.random.default_rng(7)
    weights, form = jnp.array([0.5, -0.2, 0.0, 0.1, 0.6]), blocks.form(unit)
    assert form is not unit
    given = jnp.asarray(draw.normal(size=(5, unit.dim))), jnp.asarray(draw.normal(size=(samples, unit.inputs)))
    found, wanted = both(form, weights, *given), both(unit, weights, *given)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12, atol=1e-13)
    for one, other in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@optimised
@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu", "erf"])
def test_the_fused_form_of_large_clouds_is_that_of_small_ones(name):
    """Past the cache a dense unit sums sample by sample; in two halves it does not."""
    form = blocks.form(Dense(2, 2, name))
    draw = np.random.default_rng(7)
    thetas, xs = jnp.asarray(draw.normal(size=(8000, 4))), jnp.asarray(draw.normal(size=(4, 2)))
    weights = np.linspace(-1.0, 2.0, 8000) / 4000
    total, *whole = both(form, weights, thetas, xs)
    half = eqx.filter_jit(lambda atoms, slopes: form.pullback(weights[:4000], atoms, xs, lambda _: slopes))
    halves = [half(thetas[i : i + 4000], jnp.sin(total)) for i in (0, 4000)]
    for found, *parts in zip(whole, *halves, strict=True):
        np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "unit", [hf.Dense(2, 2), pytest.param(hf.Perceptron(2, 2, "tanh"), marks=pytest.mark.slow)], ids=str
)
def test_one_switch_runs_a_flow_by_the_plain_forms(unit, monkeypatch):
    """The same flow, noise and data by formulas and public JAX alone, without the parts of JAX that may change."""
    swap = hf.natural_rep(hf.Cyclic(2))
    data = hf.Teacher(unit, hf.uniform(jnp.ones((2, unit.dim))), 6)
    field = hf.Descend(hf.Risk(hf.average(unit, swap, swap), data) + hf.Penalty(0.1), growth=0.5)
    start = hf.uniform(jax.random.normal(jax.random.key(3), (9, unit.dim)))

    def end():
        return hf.flow(field, hf.Langevin(hf.Euler(), 0.01), start, key=jax.random.key(5), dt=0.1, steps=7).cloud

    quick = end()
    with plain():
        assert not fast()
        for module, name in (
            (jax.experimental.layout, "with_layout_constraint"),
            (jax.extend.random, "define_prng_impl"),
        ):
            monkeypatch.delattr(module, name)
        slow = end()
    assert fast()
    np.testing.assert_allclose(quick.atoms, slow.atoms, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(quick.weights, slow.weights, rtol=1e-11, atol=1e-12)


@optimised
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.uint32])
def test_settled_arrays_are_the_same_to_the_bit(dtype):
    tree = {"a": jax.random.normal(jax.random.key(0), (5, 3)) * 1e9, "b": jnp.array(7.0), "c": jnp.arange(4.0)}
    tree = jax.tree.map(lambda leaf: jnp.abs(leaf).astype(dtype), tree)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(materialised(tree)), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)


@optimised
def test_what_is_settled_is_not_computed_again_for_every_particle():
    """Of the compiled program, the part that runs over particles holds no cosine: it is taken of 20 numbers alone."""

    def parts_with_both(hold):
        def run(x, particles):
            return jnp.tanh(hold(jnp.cos(x))[None, :] + particles)

        text = jax.jit(run).lower(jnp.ones(20), jnp.ones((1000, 20))).compile().as_text()
        return sum("cosine(" in part and "tanh(" in part for part in text.split("\n}\n"))

    assert parts_with_both(materialised) == 0
    assert parts_with_both(lambda x: x) == 1


def test_one_thread_is_one_thread():
    """A worker's programs are not cut into parts for other threads, however many cores there are."""
    code = """
from haarflow.runs.machine import one_thread
one_thread()
import jax, jax.numpy as jnp
print(jax.jit(jnp.tanh).lower(jnp.ones((1000, 1000))).compile().as_text())
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")}
    text = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "tanh" in text.stdout
    assert 'outer_dimension_partitions":["' not in text.stdout
