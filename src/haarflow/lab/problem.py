"""A state of the lab as things that flow: fields, schemes, starts and probes, made as the copied script makes them."""

from typing import Any, NamedTuple

import jax
import numpy as np

import haarflow as hf
from haarflow.errors import Refusal
from haarflow.lab.group_words import group_of
from haarflow.lab.probes import double_well, game_probes, probes_of, well_probes
from haarflow.lab.state import LabState
from haarflow.practice.compare import FourSchemes

TESTED = 128  # inputs on which teachers' risks are measured
HIDDEN = 4  # of a TwoLayer unit
MIXTURE = ((1.0, -2.0, 0.5), (-2.0, 0.0, 1.0), (1.0, 2.0, 0.5))  # coefficient, centre and variance of each part


class Problem(NamedTuple):
    """What a flow takes, and what a picture of it needs besides."""

    fields: dict[str, Any]
    schemes: dict[str, Any]
    starts: dict[str, Any]
    probes: dict[str, Any]
    action: Any
    teacher: hf.Cloud | None = None
    unit: Any = None
    averaged: Any = None
    sample: hf.Sample | None = None


def build(state: LabState, uploaded: hf.Sample | None = None) -> Problem:
    """The things that a state speaks of; `state` has the numbers of the moment (see `LabState.at`)."""
    return {"learn": _learn, "well": _well, "game": _game}[state.task](state, uploaded)


def key_of(state: LabState, segment: int) -> Any:
    """The key of a segment of the run: the first, or the one after so many changes."""
    return jax.random.fold_in(jax.random.key(state.seed), segment)


def _learn(state: LabState, uploaded: hf.Sample | None) -> Problem:
    on_x = group_of(state.group).rep
    on_y = on_x if state.outputs_move else hf.trivial_rep(on_x.group, state.outputs)
    unit = unit_of(state, on_x.dim, on_y.dim)
    action = unit.action(on_x, on_y)
    teacher, data, sample = _data(state, unit, action, uploaded)
    four = hf.practice.four_schemes(
        unit,
        data,
        on_x,
        on_y,
        penalty=state.penalty,
        loss=state.loss,
        exact=state.exact,
        transport=state.output_scale**-2,
        growth=None if state.growth == "none" else state.rate,
    )
    schemes = jumping(state, four.steppers(state.temperature, inner=stepper(state), projected=state.projected), unit)
    starts = four.starts(start_of(state, unit.dim, action), strong=state.start == "strong")
    probes = probes_of(unit, sample, on_x, on_y, loss=state.loss, schemes=state.schemes)
    fields, schemes, starts = ({name: part[name] for name in state.schemes} for part in (four.fields, schemes, starts))
    return Problem(fields, schemes, starts, probes, action, teacher, unit, hf.average(unit, on_x, on_y), sample)


def unit_of(state: LabState, d: int, c: int) -> Any:
    """The unit, with its scale."""
    made = {
        "Dense": lambda: hf.Dense(d, c, state.activation),
        "Perceptron": lambda: hf.Perceptron(d, c, state.activation),
        "TwoLayer": lambda: hf.TwoLayer(d, HIDDEN, c, state.activation),
        "Quadratic": lambda: hf.Quadratic(d),
        "Bump": lambda: hf.Bump(d, c),
    }[state.unit]()
    return made if state.output_scale == 1.0 else hf.kernels.Scaled(made, state.output_scale)


def _data(state: LabState, unit: Any, action: Any, uploaded: hf.Sample | None) -> tuple[Any, Any, hf.Sample]:
    """The teacher if there is one, the data of the flow, and the sample on which risks are measured."""
    if state.data == "mixture":
        whole = mixture()
        return None, whole, whole
    if state.data == "upload":
        if uploaded is None:
            raise Refusal("The uploaded data are gone: the lab keeps them while it runs. Upload the file again.")
        size = state.batch or None
        return None, hf.Sample(uploaded.xs, uploaded.ys, size), hf.Sample(uploaded.xs, uploaded.ys)
    teacher = teacher_of(state, unit.dim, action)
    data = hf.Teacher(unit, teacher, state.batch, scale=state.input_scale, noise=state.label_noise)
    xs = state.input_scale * np.random.default_rng(0).normal(size=(TESTED, unit.inputs))
    return teacher, data, hf.Sample(xs, hf.network(unit, teacher, xs))


def mixture() -> hf.Sample:
    """Three Gaussians on the line, the middle one upside down, at 24 even points."""
    xs = ((np.arange(24) + 0.5) / 24 - 0.5) * 14
    ys = sum(c * np.exp(-((xs - m) ** 2) / (2 * v)) for c, m, v in MIXTURE)
    return hf.Sample(xs[:, None], np.asarray(ys)[:, None])


def teacher_of(state: LabState, p: int, action: Any) -> hf.Cloud:
    """The teacher's atoms: as drawn or at random, as they are, symmetrised or projected."""
    strangers = [point for point in state.teacher_points if len(point) != p]
    if strangers:
        raise Refusal(
            f"A teacher's atoms are points of R^{p}, as the unit's parameters; got one of {len(strangers[0])} numbers. "
            "Clear the drawn atoms, or draw them anew."
        )
    drawn = np.random.default_rng(state.teacher_seed).normal(size=(state.teacher_atoms, p))
    cloud = hf.uniform(np.array(state.teacher_points) if state.teacher_points else drawn)
    return {"arbitrary": lambda: cloud, "weak": lambda: cloud.orbit(action), "strong": lambda: cloud.project(action)}[
        state.teacher
    ]()


def start_of(state: LabState, p: int, action: Any, stream: int = 0) -> hf.Cloud:
    """The start: Gaussian, or Gaussian and then symmetrised. (The strong start is projected by `four.starts`.)"""
    for name, row in (("centre", state.centre), ("spread", state.spread)):
        if row and len(row) != p:
            raise Refusal(f"The {name} of the start has {p} coordinates here; got {len(row)}. Write {p}, or none.")
    symmetrised = state.start == "symmetrised"
    count = max(1, state.particles // action.group.order) if symmetrised else state.particles
    noise = np.random.default_rng([state.seed, stream]).normal(size=(count, p))
    centre, spread = np.array(state.centre or [0.0] * p), np.array(state.spread or [1.0] * p)
    cloud = hf.uniform(centre + state.deviation * spread * noise)
    return cloud.orbit(action) if symmetrised else cloud


def stepper(state: LabState) -> Any:
    """The step inside of the noise."""
    if state.optimiser in ("Euler", "Heun", "Extragradient"):
        return getattr(hf, state.optimiser)()
    import optax

    return hf.Optax(optax.adam(1.0) if state.optimiser == "adam" else optax.sgd(1.0, momentum=0.9))


def jumping(state: LabState, schemes: dict[str, Any], unit: Any) -> dict[str, Any]:
    """The schemes with births and deaths around them, where the state asks for them."""
    if state.growth == "birth-death":
        return {name: hf.BirthDeath(scheme) for name, scheme in schemes.items()}
    if state.growth == "re-injection":
        prior = silent(unit.outputs, unit.dim)
        return {name: hf.BirthDeath(scheme, prior=prior, births=False) for name, scheme in schemes.items()}
    return schemes


def silent(outputs: int, p: int) -> Any:
    """A law of particles without output, the rest of them uniform on [−4, 4]."""

    def prior(key, n):
        return jax.random.uniform(key, (n, p), minval=-4.0, maxval=4.0).at[:, :outputs].set(0.0)

    return prior


def _well(state: LabState, _: Any) -> Problem:
    action = group_of(state.group).rep
    functional = hf.Penalty(state.penalty, double_well)
    plain = hf.Descend(functional, growth=None if state.growth == "none" else state.rate)
    four = FourSchemes({"vanilla": plain, "EA": hf.restrict(plain, action.fixed_projector())}, action.fixed_projector())
    names = [name for name in state.schemes if name in four.fields] or ["vanilla"]
    schemes = jumping(state, four.steppers(state.temperature, inner=stepper(state), projected=state.projected), None)
    starts = four.starts(start_of(state, action.dim, action), strong=state.start == "strong")
    fields, schemes, starts = ({name: part[name] for name in names} for part in (four.fields, schemes, starts))
    return Problem(fields, schemes, starts, well_probes(functional, action, names), action)


def _game(state: LabState, _: Any) -> Problem:
    action = group_of(state.group).rep
    p, eye = action.dim, np.eye(action.dim)
    payoff = hf.games.QuadraticPayoff(xy=eye, xx=state.penalty / 2 * eye, yy=-state.penalty / 2 * eye)
    field = hf.games.DescentAscent(payoff, ascend="y", growth=None if state.growth == "none" else state.rate)
    inner = {"Euler": hf.Euler(), "Extragradient": hf.Extragradient()}
    noisy = {name: hf.Langevin(scheme, state.temperature) for name, scheme in inner.items()}
    schemes = jumping(state, noisy, None)
    players = {name: start_of(state, p, action, stream) for stream, name in enumerate(("x", "y"))}
    lanes = list(inner)
    return Problem(
        dict.fromkeys(lanes, field), schemes, dict.fromkeys(lanes, players), game_probes(payoff, lanes), action
    )
