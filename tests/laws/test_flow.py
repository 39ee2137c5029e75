"""The one loop: cut anywhere, batched, resumed or stopped, it is the same flow."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import haarflow as hf
from haarflow.dynamics import checkpoints
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.flow import Diverged, flow
from haarflow.dynamics.schemes import Euler, Langevin, Optax
from haarflow.errors import Refusal
from haarflow.learning.data import Sample, Teacher
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import augment
from haarflow.measures.clouds import stack_clouds, uniform

KEY = jax.random.key(3)
TEACHER = Teacher.examples()[0]
FIELD = Descend(Risk(TEACHER.unit, TEACHER, "square") + Penalty(1e-3))
SGD = Langevin(Euler(), 1e-3)


def start(seed=1, n=7):
    return uniform(jax.random.normal(jax.random.key(seed), (n, 4)) / 4)


def same(a, b):
    np.testing.assert_array_equal(a.atoms, b.atoms)
    np.testing.assert_array_equal(a.weights, b.weights)


@pytest.mark.parametrize(("n", "scheme"), [(7, SGD), (4, SGD), (4, Langevin(Optax(optax.adam(1.0)), 1e-3))])
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
    clouds = stack_clouds([start(seed) for seed in (1, 2, 3)])
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
    numbers = {"dt": [0.1, 0.2, 0.1], "tau": [0, 0.1, 0.3], "alpha": [0.5, 2.0, 1.0], "heat": [1e-3, 0.0, 1e-2]}
    fields = [Descend(risk + Penalty(t, r), growth=a) for t, a in zip(numbers["tau"], numbers["alpha"], strict=True)]
    schemes = [Langevin(Euler(), heat) for heat in numbers["heat"]]
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
    def run(dt=0.1, temperature=1e-3, tau=1e-3, alpha=0.5, steps=20):
        field = Counted(Descend(Risk(TEACHER.unit, TEACHER) + Penalty(tau), growth=alpha))
        flow(field, Langevin(Euler(), temperature), start(), key=KEY, dt=dt, steps=steps)
        return len(TRACES)

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
    scheme = Langevin(Optax(optax.adam(1.0)), 1e-4)
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
    with pytest.raises(Refusal, match="dt is a finite number"):
        flow(FIELD, SGD, start(), key=KEY, dt=dt, steps=1)


def test_refusals():
    with pytest.raises(Refusal, match="flow's steps is a whole number >= 0; got -1"):
        flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=-1)
    with pytest.raises(Refusal, match="needs one scheme or a scheme for each; got fields 'a' and schemes 'b'"):
        flow({"a": FIELD}, {"b": SGD}, start(), key=KEY, dt=0.1, steps=1)
    with pytest.raises(Refusal, match=r"one cloud for each key; got 3 clouds and one key"):
        flow(FIELD, SGD, stack_clouds([start()] * 3), key=KEY, dt=0.1, steps=1)


def test_lists_of_fields_differ_in_numbers_only():
    keys = jax.random.split(KEY, 2)
    with pytest.raises(Refusal, match=r"Fields are one, or one for each key; got 2 and one key. Write key=jax.random"):
        flow([FIELD, FIELD], SGD, start(), key=KEY, dt=0.1, steps=1)
    with pytest.raises(Refusal, match="Schemes that run in one program differ in numbers only; got different kinds"):
        flow(FIELD, [SGD, Euler()], start(), key=keys, dt=0.1, steps=1)
    penalties = [Descend(Penalty(1.0, lambda theta: theta[0])), Descend(Penalty(1.0, lambda theta: theta[1]))]
    with pytest.raises(Refusal, match="got different functions: .*lambda"):
        flow(penalties, SGD, start(), key=keys, dt=0.1, steps=1)
    projectors = [Langevin(Euler(), 0.1, projector=np.eye(p)) for p in (4, 3)]
    with pytest.raises(Refusal, match=r"got different shapes: \(4, 4\), \(3, 3\)"):
        flow(FIELD, projectors, start(), key=keys, dt=0.1, steps=1)


def test_no_steps_is_the_start():
    with warnings.catch_warnings():
        same(flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=0).cloud, start())


def penalised(sizes, r=None):
    return [Descend(Penalty(size) if r is None else Penalty(size, r)) for size in sizes]


def test_fields_that_augment_by_different_groups_are_not_merged():
    """Two groups that print alike: merged, both runs would get the first one."""
    sample, still = Sample.examples()[0], hf.trivial_rep
    groups = [hf.Matrices([np.diag(signs)]) for signs in ([1.0, -1.0], [-1.0, 1.0])]
    fields = [Descend(Risk(TEACHER.unit, augment(sample, hf.natural_rep(g), still(g, 2)))) for g in groups]
    with pytest.raises(Refusal, match="got different kinds or choices"):
        flow(fields, SGD, start(), key=jax.random.split(KEY, 2), dt=0.1, steps=1)


def test_numbers_of_any_type_run_in_one_program():
    keys, sizes = jax.random.split(KEY, 3), [0, np.float32(0.5), 0.25]
    batch = flow(penalised(sizes), Euler(), start(), key=keys, dt=0.5, steps=2)
    for i, size in enumerate((0.0, 0.5, 0.25)):
        np.testing.assert_allclose(batch.cloud.atoms[i], (1 - 0.5 * size) ** 2 * start().atoms, rtol=1e-12)


TRACES = []


class Counted(Field):
    """Another field, which counts how often it is traced."""

    field: Field

    def __call__(self, key, cloud):
        TRACES.append(1)
        return self.field(key, cloud)

    @classmethod
    def examples(cls):
        return []


def test_what_is_made_again_does_not_compile_again():
    def run(rate, size):
        field = Counted(Descend(Penalty(size, lambda theta: jnp.sum(theta**2) / 2)))
        flow(field, Optax(optax.adam(1.0)), start(), key=KEY, dt=rate, steps=3, schedule=lambda t: 1 / (1 + t))
        return len(TRACES)

    once = run(0.1, 1.0)
    for rate, size in ((1, 2), (np.float32(0.5), np.float64(0.1)), (np.array(0.1), jnp.asarray(1))):
        assert run(rate, size) == once


class Heavy(Field):
    """Moves atoms away from zero at the speed of their cube, and infinitely fast in the end."""

    def __call__(self, key, cloud):
        return Tangent(jnp.where(jnp.abs(cloud.atoms) > 1e3, jnp.nan, cloud.atoms**3))

    @classmethod
    def examples(cls):
        return []


def test_one_run_that_diverges_leaves_the_others_going():
    starts = stack_clouds([uniform(jnp.full((2, 1), size)) for size in (0.1, 3.0, 0.2)])
    options = {"dt": 0.1, "steps": 40, "every": 10, "probes": {"mean": lambda cloud: cloud.mean()[0]}}
    with pytest.warns(Diverged, match=r"1 of 3 runs of the flow met .*: run 1 after step \d+; the others went on"):
        path = flow(Heavy(), Euler(), starts, key=jax.random.split(KEY, 3), **options)
    assert path.ended[0] == path.ended[2] == 40
    assert 0 < path.ended[1] < 10
    assert path.steps.tolist() == [0, 10, 20, 30, 40]
    assert np.isnan(path.probes["mean"][1, 1:]).all()
    assert np.isfinite(path.cloud.atoms).all()
    for run, size in ((0, 0.1), (2, 0.2)):
        alone = flow(Heavy(), Euler(), uniform(jnp.full((2, 1), size)), key=KEY, **options)
        np.testing.assert_allclose(path.probes["mean"][run], alone.probes["mean"], rtol=1e-13)


def test_one_lane_that_diverges_leaves_the_others_going():
    cloud = uniform(jnp.ones((2, 4)))
    fields = {"cliff": Cliff(), "still": Descend(Penalty(0.0))}
    with pytest.warns(Diverged, match=r"The flow along 'cliff' met a number that is not finite in step 22"):
        paths = flow(fields, Euler(), cloud, key=KEY, dt=0.1, steps=100, every=50, probes={"m": lambda c: c.mean()[0]})
    assert paths["cliff"].steps.tolist() == [0, 21]
    assert paths["still"].steps.tolist() == [0, 50, 100]
    assert paths["still"].stopped is None


def test_a_lane_that_stopped_is_read_again_from_its_checkpoint(tmp_path):
    """Its rows end where it stopped, also in a flow that resumes; lanes may have any name."""
    cloud, fields = uniform(jnp.ones((2, 4))), {"cliff/edge": Cliff(), "still": Descend(Penalty(0.0))}
    options = {"key": KEY, "dt": 0.1, "steps": 100, "every": 50, "probes": {"m": lambda cloud: cloud.mean()[0]}}
    for _ in range(2):
        with pytest.warns(Diverged, match="along 'cliff/edge' met a number that is not finite in step 22"):
            paths = flow(fields, Euler(), cloud, **options, checkpoint=tmp_path / "place.npz")
        assert paths["cliff/edge"].steps.tolist() == [0, 21]
        assert paths["still"].steps.tolist() == [0, 50, 100]
        np.testing.assert_allclose(paths["cliff/edge"].probes["m"], [1.0, 3.1], rtol=1e-12)


def test_times_are_exact_in_single_precision_too():
    with jax.enable_x64(False):
        cloud = uniform(jnp.zeros((2, 4), jnp.float32))
        plain = flow(Descend(Penalty(0.0)), Euler(), cloud, key=0, dt=0.1, steps=100_000)
        scheduled = flow(Descend(Penalty(0.0)), Euler(), cloud, key=0, dt=0.1, steps=100_000, schedule=lambda t: 0.5)
    assert plain.times[-1] == 0.1 * 100_000
    assert abs(scheduled.times[-1] / 5000 - 1) < 1e-7


def test_single_precision_clouds_meet_double_precision_data():
    cloud = _cast(start(), jnp.float32)
    for scheme in (Euler(), Langevin(Optax(optax.adam(1.0)), 1e-3)):
        path = flow(FIELD, scheme, cloud, key=KEY, dt=0.1, steps=3)
        assert path.cloud.atoms.dtype == jnp.float32
        wide = flow(FIELD, scheme, start(), key=KEY, dt=0.1, steps=3)
        np.testing.assert_allclose(path.cloud.atoms, wide.cloud.atoms, atol=1e-4)


@pytest.mark.parametrize("key", [3, jax.random.PRNGKey(3), np.int64(3)])
def test_seeds_and_both_kinds_of_keys_are_welcome(key):
    same(
        flow(FIELD, SGD, start(), key=key, dt=0.1, steps=1e1).cloud,
        flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=10).cloud,
    )


def test_probes_may_be_plain_python_and_per_field():
    end = start(2)
    clouds, keys = stack_clouds([start(seed) for seed in (1, 3)]), jax.random.split(KEY, 2)
    path = flow(FIELD, SGD, clouds, key=keys, dt=0.1, steps=2, probes={"w2": lambda cloud: hf.distances.w2(cloud, end)})
    assert path.probes["w2"].shape == (2, 2)
    last = uniform(path.cloud.atoms[1])
    np.testing.assert_allclose(path.probes["w2"][1, -1], hf.distances.w2(last, end), rtol=1e-12)
    fields = {"a": FIELD, "b": FIELD}
    own = flow(fields, SGD, start(), key=KEY, dt=0.1, steps=1, probes={"b": {"mean": lambda cloud: cloud.mean()}})
    assert (set(own["a"].probes), set(own["b"].probes)) == (set(), {"mean"})
    with pytest.raises(Refusal, match="Probes are functions of a cloud, or such functions for each field by its name"):
        flow(fields, SGD, start(), key=KEY, dt=0.1, steps=1, probes={"c": {"mean": lambda cloud: cloud.mean()}})
    with pytest.raises(Refusal, match="A probe returns a number or an array; got a str from word"):
        flow(FIELD, SGD, start(), key=KEY, dt=0.1, steps=1, probes={"word": lambda cloud: str(float(cloud.mean()[0]))})


BAD = {
    r"flow's field is a Field, .* got a Sum, which is a Functional. Write Descend\(functional\)": {
        "field": Risk(TEACHER.unit, TEACHER) + Penalty(0.1)
    },
    r"flow's scheme is a Scheme; got the class Euler itself. Write Euler\(...\)": {"scheme": Euler},
    r"flow's scheme is a Scheme; got an optax transformation. Write Optax": {"scheme": optax.adam(1.0)},
    "flow's steps is a whole number; got 2.5": {"steps": 2.5},
    "flow's every is a whole number >= 1; got 0": {"every": 0},
    r"A step dt is one number, or one for each key; got an array of shape \(3,\)": {"dt": [0.1, 0.2, 0.3]},
    "flow's key is a key, or a row of keys; got 'x'": {"key": "x"},
    "flow's devices is a whole number >= 1; got -1": {"devices": -1},
    r"flow's probes\['m'\] is a function or a mapping; got 3": {"probes": {"m": 3}},
    "A checkpoint is a file in a folder that exists; got a file in .*nowhere": {"checkpoint": "nowhere/place.npz"},
    "flow's schedule is a function; got 3": {"schedule": 3},
    "A schedule takes a time to one number; got None. Write lambda t": {"schedule": lambda t: None},
    "A schedule takes a time to one number; got an array .3,. of float64": {"schedule": lambda t: jnp.ones(3)},
    r"A flow of 10{18} steps would take 2.78e\+08 hours or more; at most 720": {"steps": 10**18},
    "A flow of 1000000000000 steps with a record every 1 would need 100 TB": {"steps": 10**12, "every": 1},
    "is a mapping whose names are words in quotes; got the name 3": {"field": {"a": FIELD, 3: FIELD}},
    "flow's cloud is a Cloud": {"cloud": "cloud"},
}


@pytest.mark.parametrize(("sentence", "given"), [*BAD.items()], ids=[*BAD])
def test_bad_calls_are_refused_in_a_sentence(sentence, given):
    call = {"field": FIELD, "scheme": SGD, "cloud": start(), "key": KEY, "dt": 0.1, "steps": 1} | given
    with pytest.raises(Refusal, match=sentence):
        flow(call.pop("field"), call.pop("scheme"), call.pop("cloud"), **call)


class Wrong(Field):
    """Answers whatever it is given."""

    answer: object = eqx.field(static=True)

    def __call__(self, key, cloud):
        return self.answer(cloud)

    @classmethod
    def examples(cls):
        return []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda cloud: None, "A Field returns a Tangent with a velocity for each atom .*; got None from Wrong"),
        (lambda cloud: cloud.atoms, "A Field returns a Tangent .*; got a traced array"),
        (lambda cloud: Tangent(cloud.atoms[:2]), r"got velocities of shape \(2, 4\) from Wrong"),
        (lambda cloud: Tangent(cloud.atoms, cloud.weights[:2]), "A Tangent's growth has the shape"),
    ],
)
def test_a_field_that_answers_nonsense_is_named(answer, sentence):
    with pytest.raises(Refusal, match=sentence):
        flow(Wrong(answer), Euler(), start(), key=KEY, dt=0.1, steps=1)


ASKEW = np.array([[0.36, 0.48, 0.0, 0.0], [0.48, 0.64, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.5]])


def test_through_the_start_what_lies_across_is_frozen():
    field = restrict(Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1)), ASKEW, through="start")
    path = flow(field, Langevin(Optax(optax.adam(1.0)), 0.1), start(), key=KEY, dt=0.3, steps=30)
    across = np.eye(4) - ASKEW
    np.testing.assert_allclose(path.cloud.atoms @ across, start().atoms @ across, atol=1e-14)
    assert float(jnp.abs(path.cloud.atoms - start().atoms).max()) > 0.1


def pairs(xs):
    return xs, jnp.sin(xs)


CHANGES = {
    "dt": {"dt": 0.02},
    "steps": {"steps": 21},
    "key": {"key": jax.random.key(4)},
    "start": {"cloud": start(2)},
    "every": {"every": 7},
    "schedule": {"schedule": lambda t: 1 / (1 + t)},
    "probe's function": {"probes": {"m": lambda cloud: cloud.mean() + 1}},
    "probe's name": {"probes": {"n": lambda cloud: cloud.mean()}},
    "learning rate": {"scheme": Optax(optax.adam(0.5))},
    "momentum": {"scheme": Optax(optax.adam(1.0, b1=0.8))},
    "transformation": {"scheme": Optax(optax.sgd(1.0))},
    "temperature": {"scheme": Langevin(Optax(optax.adam(1.0)), 0.1)},
    "penalty's size": {"field": Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.2))},
    "penalty's function": {"field": Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1, lambda theta: theta[0]))},
    "another lambda": {"field": Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1, lambda theta: theta[1]))},
    "growth": {"field": Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1), growth=1.0)},
    "loss": {"field": Descend(Risk(TEACHER.unit, TEACHER, "square") + Penalty(0.1))},
    "activation": {"field": Descend(Risk(hf.Dense(2, 2, "tanh"), TEACHER) + Penalty(0.1))},
    "stream": {
        "field": Descend(Risk(TEACHER.unit, hf.Stream(lambda key, n: pairs(jax.random.normal(key, (n, 2))), 3)))
    },
    "group": {
        "field": Descend(
            Risk(TEACHER.unit, augment(TEACHER, *2 * [hf.natural_rep(hf.Matrices([np.diag([-1.0, 1.0])]))]))
        )
    },
    "unit": {"field": Descend(Risk(hf.Custom(lambda z, x: jnp.tanh(z[2:] * x), 4, 2, 2, hf.natural_rep), TEACHER))},
    "restriction": {"field": restrict(Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1)), np.eye(4))},
}


STREAM = Descend(Risk(TEACHER.unit, hf.Stream(lambda key, n: pairs(jax.random.uniform(key, (n, 2))), 3)))
MIRROR = Descend(Risk(TEACHER.unit, augment(TEACHER, *2 * [hf.natural_rep(hf.Matrices([np.diag([1.0, -1.0])]))])))
CUSTOM = Descend(Risk(hf.Custom(lambda z, x: jnp.tanh(z[:2] * x), 4, 2, 2, lambda on_x, on_y: on_x + on_x), TEACHER))
FIRST = {
    "field": Descend(Risk(TEACHER.unit, TEACHER) + Penalty(0.1, lambda theta: theta[2])),
    "scheme": Optax(optax.adam(1.0)),
    "cloud": start(),
    "key": KEY,
    "dt": 0.01,
    "steps": 20,
    "probes": {"m": lambda cloud: cloud.mean()},
}


@pytest.mark.parametrize("field", [FIRST["field"], STREAM, MIRROR, CUSTOM], ids=["penalty", "stream", "group", "unit"])
def test_a_changed_flow_never_gets_the_answer_of_another(tmp_path, field):
    """One file for a flow and for all its changes: each change is refused, the same flow made again is answered."""
    file, first = tmp_path / "place.npz", FIRST | {"field": field}

    def run(**change):
        call = first | change
        return flow(call.pop("field"), call.pop("scheme"), call.pop("cloud"), **call, checkpoint=file)

    found = run()
    for name, change in CHANGES.items():
        with pytest.raises(
            Refusal, match="resumes the flow that wrote it; .* another field, scheme, cloud, key, dt, sch"
        ):
            pytest.fail(f"{name}: {run(**change).ended}")
    again = {"scheme": Optax(optax.adam(1.0)), "probes": {"m": lambda cloud: cloud.mean()}}
    same(found.cloud, run(**again, progress=pytest.fail).cloud)


def test_a_flow_inside_of_a_compiled_program_is_refused():
    def run(cloud, tau=1.0):
        return flow(Descend(Penalty(tau)), Euler(), cloud, key=KEY, dt=0.1, steps=1).cloud.atoms

    for compiled in (jax.jit(run), jax.jit(lambda tau: run(start(), tau))):
        with pytest.raises(
            Refusal, match="flow compiles a loop of its own, .*; got traced ones. Call it outside of jit"
        ):
            compiled(start() if compiled.__name__ == "run" else 1.0)
