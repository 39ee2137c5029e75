"""The one loop: cut anywhere, batched, resumed or stopped, it is the same flow."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics import checkpoints
from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.flow import Diverged, flow
from haarflow.dynamics.schemes import Euler, Noisy, Optax
from haarflow.errors import Refusal
from haarflow.learning.data import Teacher
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import stack, uniform

KEY = jax.random.key(3)
TEACHER = Teacher.examples()[0]
FIELD = Descend(Risk(TEACHER.unit, TEACHER, "square") + Penalty(1e-3))
SGD = Noisy(Euler(), 1e-3)


def start(seed=1, n=7):
    return uniform(jax.random.normal(jax.random.key(seed), (n, 4)) / 4)


def same(a, b):
    np.testing.assert_array_equal(a.atoms, b.atoms)
    np.testing.assert_array_equal(a.weights, b.weights)


@pytest.mark.parametrize(("n", "scheme"), [(7, SGD), (4, SGD), (4, Noisy(Optax(optax.adam(1.0)), 1e-3))])
def test_the_loop_is_the_literal_recursion(n, scheme):
    """Also for as many particles as coordinates, which no shape tells apart while they lie turned in the loop."""
    cloud = start(n=n)
    path = flow(FIELD, scheme, cloud, key=KEY, dt=0.1, steps=5)
    step, state = eqx.filter_jit(scheme.step), scheme.start(cloud)
    for k in range(5):
        cloud, state = step(jax.random.fold_in(KEY, k), FIELD, cloud, state, jnp.asarray(0.1))
    np.testing.assert_allclose(path.cloud.atoms, cloud.atoms, rtol=1e-13, atol=1e-15)


def test_the_result_does_not_depend_on_how_the_loop_is_cut():
    whole = flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=300)
    probed = flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=300, every=7, probes={"mean": lambda c: c.mean()})
    same(whole.cloud, probed.cloud)
    assert list(probed.steps[:3]) == [0, 7, 14]
    assert probed.steps[-1] == 300
    assert probed.probes["mean"].shape == (44, 4)
    np.testing.assert_allclose(probed.times, 0.1 * probed.steps, rtol=1e-12)


def test_lanes_share_data_and_noise_and_equal_separate_flows():
    fields = {"plain": FIELD, "decayed": Descend(Risk(TEACHER.unit, TEACHER, "square") + Penalty(0.5))}
    together = flow(fields, SGD, start(), key=KEY, dt=0.1, steps=50)
    for name, field in fields.items():
        alone = flow(field, SGD, start(), key=KEY, dt=0.1, steps=50)
        np.testing.assert_allclose(together[name].cloud.atoms, alone.cloud.atoms, rtol=1e-11, atol=1e-13)


def test_many_keys_run_as_one_program():
    keys = jax.random.split(KEY, 3)
    clouds = stack([start(seed) for seed in (1, 2, 3)])
    probes = {"size": lambda cloud: cloud.second_moment()}
    batch = flow(FIELD, SGD, clouds, key=keys, dt=0.1, steps=40, every=10, probes=probes)
    assert batch.probes["size"].shape == (3, 5)
    for i, seed in enumerate((1, 2, 3)):
        alone = flow(FIELD, SGD, start(seed), key=keys[i], dt=0.1, steps=40)
        np.testing.assert_allclose(batch.cloud.atoms[i], alone.cloud.atoms, rtol=1e-11, atol=1e-13)


def test_numbers_run_beside_seeds_in_one_program():
    traces = []

    def r(theta):
        traces.append(1)
        return jnp.sum(theta**2) / 2

    risk, keys = Risk(TEACHER.unit, TEACHER, "square"), jax.random.split(KEY, 3)
    numbers = {"dt": [0.1, 0.2, 0.1], "tau": [0.0, 0.1, 0.3], "alpha": [0.5, 2.0, 1.0], "heat": [1e-3, 0.0, 1e-2]}
    fields = [Descend(risk + Penalty(t, r), growth=a) for t, a in zip(numbers["tau"], numbers["alpha"], strict=True)]
    schemes = [Noisy(Euler(), heat) for heat in numbers["heat"]]
    options = {"steps": 20, "every": 10, "probes": {"size": lambda cloud: cloud.second_moment()}}
    batch = flow({"a": fields}, {"a": schemes}, start(), key=keys, dt=np.array(numbers["dt"]), **options)["a"]
    once = len(traces)
    for i in range(3):
        alone = flow(fields[i], schemes[i], start(), key=keys[i], dt=numbers["dt"][i], **options)
        np.testing.assert_allclose(batch.cloud.atoms[i], alone.cloud.atoms, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(batch.cloud.weights[i], alone.cloud.weights, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(batch.probes["size"][i], alone.probes["size"], rtol=1e-11)
    assert once < 10


def test_the_schedule_scales_the_step_by_its_time():
    shrinking = flow(Descend(Penalty(1.0)), Euler(), start(), key=KEY, dt=0.5, steps=4, schedule=lambda t: 1 / (1 + t))
    factor = np.prod([1 - 0.5 / (1 + 0.5 * k) for k in range(4)])
    np.testing.assert_allclose(shrinking.cloud.atoms, factor * start().atoms, rtol=1e-13)
    np.testing.assert_allclose(shrinking.times[-1], sum(0.5 / (1 + 0.5 * k) for k in range(4)))


def test_sliding_a_number_does_not_recompile():
    traces = []

    class Counted(Field):
        field: Field

        def __call__(self, key, cloud):
            traces.append(1)
            return self.field(key, cloud)

        @classmethod
        def examples(cls):
            return []

    def run(dt=0.1, temperature=1e-3, tau=1e-3, alpha=0.5, steps=20):
        field = Counted(Descend(Risk(TEACHER.unit, TEACHER) + Penalty(tau), growth=alpha))
        flow(field, Noisy(Euler(), temperature), start(), key=KEY, dt=dt, steps=steps)
        return len(traces)

    first = run()
    assert run(dt=0.2) == run(temperature=0.1) == run(tau=0.3) == run(alpha=2.0) == run(steps=33) == first


class Cliff(Field):
    """Moves right at speed one until an atom passes 3.05, then answers NaN."""

    def __call__(self, key, cloud):
        speed = jnp.where(cloud.atoms.max() > 3.05, jnp.nan, 1.0)
        return Tangent(jnp.broadcast_to(speed, cloud.atoms.shape))

    @classmethod
    def examples(cls):
        return []


def test_a_flow_that_meets_nan_keeps_its_last_good_state_and_says_so():
    with pytest.warns(Diverged, match="not finite in step 32; it kept the state after step 31"):
        path = flow(Cliff(), Euler(), uniform(jnp.zeros((2, 4))), key=KEY, dt=0.1, steps=1000)
    np.testing.assert_allclose(path.cloud.atoms, 3.1, rtol=1e-12)
    assert path.stopped is not None
    assert path.steps[-1] == 31


def test_a_flow_that_meets_nan_after_a_recorded_step_records_it_once():
    with pytest.warns(Diverged, match="kept the state after step 31"):
        path = flow(Cliff(), Euler(), uniform(jnp.zeros((2, 4))), key=KEY, dt=0.1, steps=1000, every=31)
    assert path.steps.tolist() == [0, 31]


class Killed(Exception):
    pass


def test_a_killed_flow_resumes_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    file = tmp_path / "place.npz"
    scheme = Noisy(Optax(optax.adam(1.0)), 1e-4)
    options = {"key": KEY, "dt": 0.01, "steps": 200, "every": 30, "probes": {"mean": lambda cloud: cloud.mean()}}
    whole = flow(FIELD, scheme, start(), **options)

    def die(fraction):
        if fraction > 0.6:
            raise Killed

    with pytest.raises(Killed):
        flow(FIELD, scheme, start(), **options, checkpoint=file, progress=die)
    seen = []
    resumed = flow(FIELD, scheme, start(), **options, checkpoint=file, progress=seen.append)
    assert seen[0] > 0.6
    same(whole.cloud, resumed.cloud)
    np.testing.assert_array_equal(whole.probes["mean"], resumed.probes["mean"])
    again = flow(FIELD, scheme, start(), **options, checkpoint=file, progress=pytest.fail)
    same(whole.cloud, again.cloud)
    with pytest.raises(Refusal, match="resumes the flow that wrote it"):
        flow(FIELD, scheme, start(), **{**options, "dt": 0.02}, checkpoint=file)
    file.write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(Refusal, match="does not read as one. Delete it to start again"):
        flow(FIELD, scheme, start(), **options, checkpoint=file)


def test_float32_and_float64_see_the_same_noise():
    narrow, wide = (
        flow(Descend(Penalty(0.0)), SGD, _cast(start(), kind), key=KEY, dt=0.1, steps=3)
        for kind in (jnp.float32, jnp.float64)
    )
    np.testing.assert_allclose(narrow.cloud.atoms, wide.cloud.atoms, atol=1e-6)
    assert narrow.cloud.atoms.dtype == jnp.float32


def _cast(cloud, kind):
    return jax.tree.map(lambda leaf: leaf.astype(kind), cloud)


@pytest.mark.parametrize("dt", [0.0, -0.1, float("nan"), float("inf")])
def test_a_step_must_be_a_positive_number(dt):
    with pytest.raises(Refusal, match="A step dt is a finite number > 0; got"):
        flow(FIELD, SGD, start(), key=KEY, dt=dt, steps=1)


def test_refusals():
    with pytest.raises(Refusal, match="makes steps >= 0 steps and measures every >= 1"):
        flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=-1)
    with pytest.raises(Refusal, match="needs one scheme, or a scheme for each"):
        flow({"a": FIELD}, {"b": SGD}, start(), key=KEY, dt=0.1, steps=1)
    with pytest.raises(Refusal, match=r"one cloud for each key; got \(3,\) clouds and one keys"):
        flow(FIELD, SGD, stack([start()] * 3), key=KEY, dt=0.1, steps=1)


def test_lists_of_fields_differ_in_numbers_only():
    keys = jax.random.split(KEY, 2)
    with pytest.raises(Refusal, match=r"Fields are one, or one for each key; got 2 and one keys. Write key=jax.random"):
        flow([FIELD, FIELD], SGD, start(), key=KEY, dt=0.1, steps=1)
    with pytest.raises(Refusal, match="Schemes that run in one program differ in numbers only; got different kinds"):
        flow(FIELD, [SGD, Euler()], start(), key=keys, dt=0.1, steps=1)
    penalties = [Descend(Penalty(1.0, lambda theta: theta[0])), Descend(Penalty(1.0, lambda theta: theta[1]))]
    with pytest.raises(Refusal, match="got different functions: .*lambda"):
        flow(penalties, SGD, start(), key=keys, dt=0.1, steps=1)
    projectors = [Noisy(Euler(), 0.1, projector=np.eye(p)) for p in (4, 3)]
    with pytest.raises(Refusal, match=r"got different shapes: \(4, 4\), \(3, 3\)"):
        flow(FIELD, projectors, start(), key=keys, dt=0.1, steps=1)


def test_no_steps_is_the_start():
    with warnings.catch_warnings():
        same(flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=0).cloud, start())
