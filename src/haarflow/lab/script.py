"""A state of the lab to take away: as Python, as TOML, as a command and as a link. Each gives the same numbers."""

import json
import shlex
from typing import Any

from haarflow.errors import Refusal
from haarflow.lab.group_words import group_of
from haarflow.lab.problem import HIDDEN, MIXTURE, TESTED
from haarflow.lab.state import VERSION, LabState, acting, validated
from haarflow.runs.config import toml

USUAL = LabState()


def told(state: LabState) -> dict[str, Any]:
    """What differs from the usual state, as JSON values; changes without what stayed."""
    found = state.model_dump(mode="json", exclude_none=True)
    usual = USUAL.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in found.items() if value != usual[name]}


def as_toml(state: LabState) -> str:
    """A TOML file of the state; `haarflow lab --config FILE --out run.npz` runs it."""
    lines = [f"# haarflow lab, schema {VERSION}: haarflow lab --config lab.toml --out run.npz", f"version = {VERSION}"]
    return "\n".join([*lines, *(f"{name} = {toml(value)}" for name, value in told(state).items())]) + "\n"


def as_command(state: LabState) -> str:
    """A command that makes the same run without a page."""
    words = ["haarflow", "lab"]
    for name, value in told(state).items():
        words += ["--set", f"{name}={toml(value)}"]
    return shlex.join([*words, "--out", "run.npz"])


def as_link(state: LabState) -> str:
    """The part of an address after its #: the version of the schema, the seed, and what differs from the usual."""
    from starlette.datastructures import QueryParams

    pairs = {"v": VERSION, "seed": state.seed} | told(state)
    return str(
        QueryParams({name: value if isinstance(value, str) else json.dumps(value) for name, value in pairs.items()})
    )


def from_link(link: str) -> LabState:
    """The state that a link speaks of, validated again."""
    from starlette.datastructures import QueryParams

    if len(link) > 60_000:
        raise Refusal(f"A link of the lab has 60000 letters at most; got {len(link)}.")
    given = dict(QueryParams(link.removeprefix("#")))
    if (version := given.pop("v", str(VERSION))) != str(VERSION):
        raise Refusal(
            f"This lab reads links of version {VERSION}; got version {version[:20]!r}. Open it with its own haarflow."
        )
    words = {name for name, field in LabState.model_fields.items() if isinstance(field.default, str)}
    values = {}
    for name, text in given.items():
        try:
            values[name] = text if name in words else json.loads(text)
        except (ValueError, RecursionError):
            raise Refusal(f"A link's value is written as JSON; got {name[:40]}={text[:40]!r}.") from None
    return validated(values)


def as_python(state: LabState) -> str:
    """A script that prints the last row of every curve, and keeps all of them in `curves` and `paths`."""
    maker = {"learn": _learn, "well": _well, "game": _game}[state.task]
    return "\n".join([*_head(state), *maker(state), *_tail(state)]) + "\n"


def _head(state: LabState) -> list[str]:
    double = ["", 'jax.config.update("jax_enable_x64", True)'] if state.precision == "float64" else []
    numbers = {name: getattr(state, name) for name in acting("slides")}
    given = ", ".join(f'"{name}": {value!r}' for name, value in numbers.items())
    growth, words = "None" if state.growth == "none" else 'now["rate"]', group_of(state.group)
    return [
        "import jax",
        "import numpy as np",
        "import haarflow as hf",
        "from haarflow.lab import probes",
        *(["import optax"] if state.optimiser in ("momentum", "adam") and state.task != "game" else []),
        *double,
        "",
        f"changes = {[change.model_dump(exclude_none=True) for change in state.changes]!r}",
        f"now = {{{given}}}",
        f"rep = {words.rep_source}  # how the group moves inputs",
        "group = rep.group",
        f"growth = lambda now: {growth}",
        "",
    ]


def _learn(state: LabState) -> list[str]:
    on_y = "rep" if state.outputs_move else f"hf.trivial_rep(group, {state.outputs})"
    strong = state.start == "strong"
    return [
        f"on_x, on_y = rep, {on_y}",
        f"unit = {_unit(state)}",
        "action = unit.action(on_x, on_y)",
        *_data(state),
        *_start(state, "unit.dim"),
        "",
        "",
        "def problem(now):",
        "    four = hf.practice.four_schemes(",
        '        unit, data, on_x, on_y, penalty=now["penalty"], '
        f"loss={state.loss!r}, exact={state.exact}, transport={state.output_scale**-2!r}, growth=growth(now)",
        "    )",
        f'    schemes = four.steppers(now["temperature"], inner={_stepper(state)}, projected={state.projected})',
        *_jumping(state),
        f"    return four.fields, schemes, four.starts(cloud, strong={strong})",
        "",
        "",
        f"lanes = {list(state.schemes)!r}",
        f"watched = probes.probes_of(unit, sample, on_x, on_y, loss={state.loss!r}, schemes=lanes)",
        "",
    ]


def _unit(state: LabState) -> str:
    made = {
        "Dense": f"hf.Dense(on_x.dim, on_y.dim, {state.activation!r})",
        "Perceptron": f"hf.Perceptron(on_x.dim, on_y.dim, {state.activation!r})",
        "TwoLayer": f"hf.TwoLayer(on_x.dim, {HIDDEN}, on_y.dim, {state.activation!r})",
        "Quadratic": "hf.Quadratic(on_x.dim)",
        "Bump": "hf.Bump(on_x.dim, on_y.dim)",
    }[state.unit]
    return made if state.output_scale == 1.0 else f"hf.kernels.Scaled({made}, {state.output_scale!r})"


def _data(state: LabState) -> list[str]:
    if state.data == "mixture":
        return [
            "xs = ((np.arange(24) + 0.5) / 24 - 0.5) * 14",
            f"ys = sum(c * np.exp(-((xs - m) ** 2) / (2 * v)) for c, m, v in {MIXTURE!r})",
            "data = sample = hf.Sample(xs[:, None], ys[:, None])",
        ]
    if state.data == "upload":
        return [
            f'sample = hf.load("data.npz")  # as the lab saves it beside this script; its mark is {state.upload}',
            f"data = hf.Sample(sample.xs, sample.ys, {state.batch or None})",
        ]
    drawn = f"np.random.default_rng({state.teacher_seed}).normal(size=({state.teacher_atoms}, unit.dim))"
    points = f"np.array({[list(point) for point in state.teacher_points]!r})" if state.teacher_points else drawn
    ending = {"arbitrary": "", "weak": ".orbit(action)", "strong": ".project(action)"}[state.teacher]
    return [
        f"teacher = hf.uniform({points}){ending}",
        f"data = hf.Teacher(unit, teacher, {state.batch}, scale={state.input_scale!r}, noise={state.label_noise!r})",
        f"xs = {state.input_scale!r} * np.random.default_rng(0).normal(size=({TESTED}, unit.inputs))",
        "sample = hf.Sample(xs, hf.network(unit, teacher, xs))",
    ]


def _start(state: LabState, p: str, name: str = "cloud", stream: int = 0) -> list[str]:
    symmetrised = state.start == "symmetrised"
    count = f"max(1, {state.particles} // group.order)" if symmetrised else f"{state.particles}"
    centre = f"np.array({list(state.centre)!r})" if state.centre else f"np.array([0.0] * {p})"
    spread = f"np.array({list(state.spread)!r})" if state.spread else f"np.array([1.0] * {p})"
    return [
        f"noise = np.random.default_rng([{state.seed}, {stream}]).normal(size=({count}, {p}))",
        f"{name} = hf.uniform({centre} + {state.deviation!r} * {spread} * noise)" + ".orbit(action)" * symmetrised,
    ]


def _stepper(state: LabState) -> str:
    return {
        "momentum": "hf.Optax(optax.sgd(1.0, momentum=0.9))",
        "adam": "hf.Optax(optax.adam(1.0))",
    }.get(state.optimiser, f"hf.{state.optimiser}()")


def _jumping(state: LabState) -> list[str]:
    if state.growth == "birth-death":
        return ["    schemes = {name: hf.BirthDeath(scheme) for name, scheme in schemes.items()}"]
    if state.growth != "re-injection":
        return []
    return [
        "    def prior(key, n):",
        "        fresh = jax.random.uniform(key, (n, unit.dim), minval=-4.0, maxval=4.0)",
        "        return fresh.at[:, : unit.outputs].set(0.0)",
        "    schemes = {name: hf.BirthDeath(one, prior=prior, births=False) for name, one in schemes.items()}",
    ]


def _well(state: LabState) -> list[str]:
    lanes = [name for name in state.schemes if name in ("vanilla", "EA")] or ["vanilla"]
    return [
        "from haarflow.practice.compare import FourSchemes",
        "action = rep",
        *_start(state, "action.dim"),
        "",
        "",
        "def problem(now):",
        '    plain = hf.Descend(hf.Penalty(now["penalty"], probes.double_well), growth=growth(now))',
        "    fixed = action.fixed_projector()",
        '    four = FourSchemes({"vanilla": plain, "EA": hf.restrict(plain, fixed)}, fixed)',
        f'    schemes = four.steppers(now["temperature"], inner={_stepper(state)}, projected={state.projected})',
        *_jumping(state),
        f"    return four.fields, schemes, four.starts(cloud, strong={state.start == 'strong'})",
        "",
        "",
        f"lanes = {lanes!r}",
        'watched = lambda now: probes.well_probes(hf.Penalty(now["penalty"], probes.double_well), action, lanes)',
        "",
    ]


def _game(state: LabState) -> list[str]:
    return [
        "action = rep",
        "eye = np.eye(action.dim)",
        *_start(state, "action.dim", "x", 0),
        *_start(state, "action.dim", "y", 1),
        "",
        "",
        "def payoff(now):",
        '    tau = now["penalty"] / 2',
        "    return hf.games.QuadraticPayoff(xy=eye, xx=tau * eye, yy=-tau * eye)",
        "",
        "",
        "def problem(now):",
        '    field = hf.games.DescentAscent(payoff(now), ascend="y", growth=growth(now))',
        '    inner = {"Euler": hf.Euler(), "Extragradient": hf.Extragradient()}',
        '    schemes = {name: hf.Langevin(scheme, now["temperature"]) for name, scheme in inner.items()}',
        *_jumping(state),
        '    return dict.fromkeys(lanes, field), schemes, dict.fromkeys(lanes, {"x": x, "y": y})',
        "",
        "",
        'lanes = ["Euler", "Extragradient"]',
        "watched = lambda now: probes.game_probes(payoff(now), lanes)",
        "",
    ]


def _tail(state: LabState) -> list[str]:
    watched = "watched" if state.task == "learn" else "watched(now)"
    return [
        f"key, steps, every = jax.random.key({state.seed}), {state.steps}, {state.every}",
        "begin, clock, clouds, curves, paths = 0, 0.0, None, [], []",
        "for change in changes:",
        '    now |= {} if change["step"] else {name: value for name, value in change.items() if name != "step"}',
        'changes = [change for change in changes if 0 < change["step"] < steps]',
        'for segment, end in enumerate([*(change["step"] for change in changes), steps]):',
        "    fields, schemes, starts = ({name: part[name] for name in lanes} for part in problem(now))",
        f"    seen = {watched}",
        "    path = hf.flow(",
        "        fields,",
        "        schemes,",
        "        starts if clouds is None else clouds,",
        "        key=jax.random.fold_in(key, segment),",
        '        dt=now["dt"],',
        "        steps=end - begin,",
        "        every=every,",
        '        probes={name: {"measured": probe} for name, probe in seen.items()},',
        "    )",
        "    clouds = {name: path[name].cloud for name in lanes}",
        '    numbers = {"penalty": now["penalty"], "temperature": now["temperature"]}',
        '    found = {name: seen[name].table(path[name].probes["measured"], **numbers) for name in lanes}',
        "    steps_here = {name: begin + path[name].steps for name in lanes}",
        "    times = {name: clock + path[name].times for name in lanes}",
        "    curves.append((steps_here, times, found))",
        '    begin, clock = end, clock + now["dt"] * (end - begin)',
        "    paths.append(path)",
        "    if segment < len(changes):",
        '        now |= {name: value for name, value in changes[segment].items() if name != "step"}',
        "",
        "for name in lanes:",
        "    print(name, {column: float(values[-1]) for column, values in curves[-1][2][name].items()})",
    ]
