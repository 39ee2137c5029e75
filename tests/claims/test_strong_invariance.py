"""Strong invariance at a small size: the claims, planted faults that they see, and float32 that is float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.experiments.strong_invariance import StrongInvariance, cast
from haarflow.runs import style

SMALL = StrongInvariance(
    sizes=(10, 50),
    repetitions=4,
    single=(10,),
    horizon=5,
    escape_time=5.0,
    escape_repetitions=8,
    escape_sizes=(20, 80),
    escape_steps=(0.25, 0.0625),
    escape_batches=(5, 20),
)


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt."""
    draw = np.random.default_rng(0).lognormal(0.0, 0.3, (4, 2))
    held, plain = np.full((4, 2, 3), 1e-30), np.full((4, 2, 1), 1e-4)
    found = {"full batch": np.asarray(1e-30), "single/off2": np.full((4, 1, 4), 1e-13)}
    for teacher in ("arbitrary", "weak", "strong"):
        found[f"{teacher}/off2"] = np.concatenate([plain, held], -1)
        found[f"{teacher}/rmd2"] = np.concatenate([np.full_like(plain, 0.093), held], -1)
        found[f"{teacher}/gaps"] = np.full((4, 2, 3), 1e-15)
    powers = {"N": -1, "step": 1, "batch": -1, "still": 0}
    flat = draw[:, :1] * 1e-5
    return found | {f"escape/{name}": flat * SMALL._grids()[name] ** power for name, power in powers.items()}


@pytest.fixture(scope="module")
def made():
    """All parts of a small run, in this process."""
    return SMALL.gather({part: SMALL.run(jax.random.key(0), part) for part in SMALL.parts()})


def failing(data):
    return [claim for claim, check in SMALL.verdict(data).items() if not (check is True or getattr(check, "holds", 0))]


def test_what_theory_says_holds(data):
    assert not failing(data)


def test_three_schemes_are_one_path_on_the_fixed_space_and_plain_training_leaves_it():
    found = SMALL.run(jax.random.key(0), "weak N=50 runs 0-3")
    assert found["off2"][:, 1:].max() < 1e-24
    assert found["gaps"].max() < 1e-12
    assert found["off2"][:, 0].min() > 1e-7


@pytest.mark.slow
def test_what_is_exact_holds_at_any_size_and_the_escape_has_its_direction(made):
    exact = ("Thm 6", "Thm 5: plain, full batch", "float32")
    assert not [claim for claim in failing(made) if claim.startswith(exact)]
    found = SMALL.slopes(made)
    assert found["step"].value > 0.5
    assert found["batch"].value < -0.5
    assert found["N"].value < -0.5


@pytest.mark.parametrize(
    ("name", "where", "value", "claim"),
    [
        ("weak/off2", np.s_[:, 0, 1], 1e-20, "Thm 6: DA and EA end on E^G"),
        ("weak/off2", np.s_[:, 1, 2], 1e-20, "Thm 6: FA ends on E^G"),
        ("strong/gaps", np.s_[0, 1, 2], 1e-9, "Thm 6: DA, FA and EA are one path"),
        ("full batch", np.s_[...], 1e-9, "Thm 5: plain, full batch"),
        ("arbitrary/rmd2", np.s_[:, 1, 0], 0.05, "plain, arbitrary teacher"),
        ("single/off2", np.s_[...], 1e-30, "float32 leaves E^G"),
        ("escape/still", np.s_[:, 0], 1.0, "escape law: at a fixed step"),
    ],
)
def test_each_claim_sees_its_planted_fault(data, name, where, value, claim):
    spoilt = {key: np.array(array) for key, array in data.items()}
    spoilt[name][where] = value
    assert any(words.startswith(claim) for words in failing(spoilt))


def test_noise_that_is_not_projected_leaves_the_fixed_space():
    keys = jax.random.split(jax.random.key(0), 2)
    field = published.fields(published.task("weak", 5), 1e-4)["DA"]
    start = published.starts(keys[0], 20, strong=True)["DA"]
    ends = {
        projected: flow(
            field, published.steppers(1e-6, projected=projected)["DA"], start, key=keys[1], dt=0.5, steps=20
        ).cloud.atoms
        for projected in (True, False)
    }
    off = {projected: float(jnp.abs(atoms - atoms @ published.PROJECTOR).max()) for projected, atoms in ends.items()}
    assert off[True] < 1e-13
    assert off[False] > 1e-4


@pytest.mark.parametrize("scheme", published.SCHEMES)
def test_float32_is_float32_throughout(scheme):
    fields, schemes, start = cast(
        (
            published.fields(published.task("weak", 5), 1e-4),
            published.steppers(1e-6, projected=True),
            published.starts(jax.random.key(1), 6, strong=True),
        ),
        jnp.float32,
    )
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
