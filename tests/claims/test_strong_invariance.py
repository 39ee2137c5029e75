"""Strong invariance at a small size: the claims, planted faults that they see, and float32 that is float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.experiments.strong_invariance import TEACHERS, StrongInvariance, cast
from haarflow.practice.compare import SCHEMES
from haarflow.runs import judge, style
from haarflow.runs.experiment import Data, named

SMALL = StrongInvariance(sizes=(10, 50), repetitions=4, single=(10,), horizon=5)


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt."""
    values = {"vanilla": 1e-4, "DA": 1e-30, "FA": 1e-30, "EA": 1e-30}
    ends, wide = [values[name] for name in SCHEMES], {"teacher": TEACHERS, "n": SMALL.sizes, "scheme": SCHEMES}
    off2 = named(np.tile(ends, (3, 2, 4, 1)), "teacher", "n", "run", "scheme", **wide)
    rmd2 = named(np.tile([0.093, *ends[1:]], (3, 2, 4, 1)), "teacher", "n", "run", "scheme", **wide)
    gaps = named(np.full((3, 2, 4, 3), 1e-15), "teacher", "n", "run", "pair", teacher=TEACHERS, n=SMALL.sizes)
    single = named(np.full((1, 4, 4), 1e-13), "n", "run", "scheme", n=SMALL.single, scheme=SCHEMES)
    found = {"off2": off2, "rmd2": rmd2, "gaps": gaps, "single_off2": single, "full_batch": named(1e-30)}
    return Data(found)


def failing(data):
    return [claim for claim, check in judge.claims(SMALL, data).items() if not check.holds]


def test_what_theory_says_holds(data):
    assert not failing(data)


def test_three_schemes_are_one_path_on_the_fixed_space_and_plain_training_leaves_it():
    found = SMALL.train(jax.random.key(0), "weak", 50, range(4))
    assert found["off2"].sel(scheme=("DA", "FA", "EA")).max() < 1e-24
    assert found["gaps"].max() < 1e-12
    assert found["off2"].sel(scheme="vanilla").min() > 1e-7


@pytest.mark.slow
def test_what_is_exact_holds_at_any_size(rehearse):
    rehearsal = rehearse(StrongInvariance, jax.random.key(0), **SMALL.model_dump())
    exact = ("Thm 6", "Thm 5: plain, full batch", "float")
    assert not [claim for claim in rehearsal.lost() if claim.startswith(exact)]


@pytest.mark.parametrize(
    ("name", "where", "value", "claim"),
    [
        ("off2", np.s_[1, :, :, 1], 1e-20, "Thm 6: DA and EA end on E^G"),
        ("off2", np.s_[1, 1, :, 2], 1e-20, "Thm 6: FA ends on E^G"),
        ("gaps", np.s_[2, 1, 0, 2], 1e-9, "Thm 6: DA, FA and EA are one path"),
        ("full_batch", np.s_[...], 1e-9, "Thm 5: plain, full batch"),
        ("rmd2", np.s_[0, 1, :, 0], 0.05, "plain, arbitrary teacher"),
        ("single_off2", np.s_[...], 1e-30, "float32 leaves E^G"),
        ("off2", np.s_[1, 0, :, 2], 1e-20, "float64 does not"),
    ],
)
def test_each_claim_sees_its_planted_fault(data, name, where, value, claim):
    data[name].values[where] = value
    assert any(words.startswith(claim) for words in failing(data))


@pytest.mark.slow
def test_noise_that_is_not_projected_leaves_the_fixed_space():
    keys = jax.random.split(jax.random.key(0), 2)
    four = published.four(published.task("weak", 5), 1e-4)
    start = published.starts(keys[0], 20, strong=True)["DA"]
    ends = {
        projected: flow(
            four.fields["DA"], four.steppers(1e-6, projected=projected)["DA"], start, key=keys[1], dt=0.5, steps=20
        ).cloud.atoms
        for projected in (True, False)
    }
    off = {projected: float(jnp.abs(atoms - atoms @ published.PROJECTOR).max()) for projected, atoms in ends.items()}
    assert off[True] < 1e-13
    assert off[False] > 1e-4


@pytest.mark.parametrize("scheme", SCHEMES)
def test_float32_is_float32_throughout(scheme):
    four = published.four(published.task("weak", 5), 1e-4)
    begun = published.starts(jax.random.key(1), 6, strong=True)
    fields, schemes, start = cast((four.fields, four.steppers(1e-6, projected=True), begun), jnp.float32)
    step = jax.make_jaxpr(lambda key, cloud: schemes[scheme].step(key, fields[scheme], cloud, (), jnp.float32(0.5)))
    wide = [
        equation.primitive.name
        for equation in _equations(step(jax.random.key(0), start[scheme]).jaxpr)
        for out in equation.outvars
        if getattr(out.aval, "dtype", None) == jnp.float64
    ]
    assert not wide


def _equations(jaxpr):
    """Every equation, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


def test_the_panels_draw(data):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))
