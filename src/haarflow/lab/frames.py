"""Frames: clouds seen along two or three axes, as few bytes as a screen can show, with what was measured since.

A message is four bytes with the length of a JSON header, the header, and then the numbers that it describes, as 16-bit
integers: for each cloud the places of all particles along the first axis, the second and the third, in 1/32767 of the
header's reach, and where weights differ n times each of them in 1/256.
"""

import json
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int16

import haarflow as hf
from haarflow.lab.lab_run import LabRun, by_player

UNIT = 32767
GRID = {1: 160, 2: 40}  # points of the function's picture along each axis, for inputs in one and two dimensions


def message(header: dict[str, Any], *bodies: bytes) -> bytes:
    """A header and what it describes, as one message; a number that is not finite becomes null."""
    head = json.dumps(_finite(header), separators=(",", ":"), allow_nan=False).encode()
    head += b" " * (-len(head) % 4)  # so that the numbers after it lie on whole words
    return b"".join([len(head).to_bytes(4, "little"), head, *bodies])


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


class Axes:
    """Two or three directions in R^p, chosen once so that a picture does not turn by itself, and their names."""

    def __init__(self, matrix: Float[np.ndarray, "p k"], names: list[str], fixed: Float[np.ndarray, "p m"]):
        self.matrix, self.names = matrix, names
        self.fixed = fixed.T @ matrix  # the basis of E^G, seen along the axes

    @classmethod
    def of(cls, run: LabRun) -> "Axes":
        """The axes that a state asks for."""
        state, p = run.state, run.problem.action.dim
        fixed = np.asarray(run.problem.action.fixed_basis(), float)
        count, atoms = min(state.dimensions, p), _all_atoms(run.clouds)
        if state.axes == "coordinates":
            chosen = list(dict.fromkeys(i % p for i in (state.first, state.second, state.third)[:count]))
            return cls(np.eye(p)[:, chosen], [_called(state, i, run.problem.unit) for i in chosen], fixed)
        if state.axes == "principal":
            matrix = principal(atoms, np.eye(p))[:, :count]
            return cls(matrix, [f"principal direction {i + 1}" for i in range(matrix.shape[1])], fixed)
        teacher = run.problem.teacher
        return cls(*around(atoms if teacher is None else np.asarray(teacher.atoms, float), fixed, count), fixed)

    def seen(self, atoms: Any) -> Float[np.ndarray, "k n"]:
        """Points of R^p along each axis."""
        return self.matrix.T.astype(np.float32) @ np.asarray(atoms, np.float32).T


def _called(state: Any, i: int, unit: Any) -> str:
    """The name of a coordinate of the particles, by the letter that the unit's formula has."""
    if unit is None or state.unit == "TwoLayer":
        return f"coordinate {i + 1}"
    c, d = unit.outputs, unit.inputs
    outer = {"Perceptron": c, "Bump": c}.get(state.unit, 0)
    if i < outer:
        return f"output a{i + 1 if c > 1 else ''}"
    if state.unit == "Dense":
        return f"z[{i // d + 1}, {i % d + 1}]"
    if state.unit == "Perceptron" and i == c + d:
        return "bias b"
    letter = "centre m" if state.unit == "Bump" else "direction w"
    return f"{letter}{i - outer + 1 if d > 1 else ''}"


def _all_atoms(clouds: dict[str, Any]) -> np.ndarray:
    found = [np.asarray(one.atoms, float) for cloud in clouds.values() for one in by_player(cloud).values()]
    return np.concatenate([atoms[:2000] for atoms in found])


def around(atoms: np.ndarray, fixed: np.ndarray, count: int) -> tuple[np.ndarray, list[str]]:
    """E^G from its side: the last axis across it, those before it along it; the widest ones of some atoms."""
    projector = fixed @ fixed.T
    values, vectors = np.linalg.eigh(np.eye(len(fixed)) - projector)
    along, across = principal(atoms @ projector, fixed), principal(atoms - atoms @ projector, vectors[:, values > 0.5])
    inside = min(along.shape[1], count - 1 if across.shape[1] else count)
    inside = max(inside, count - across.shape[1])
    outside = count - inside
    names = [f"along E^G {i + 1}" for i in range(inside)] + [f"across E^G {i + 1}" for i in range(outside)]
    return np.hstack([along[:, :inside], across[:, :outside]]), names


def principal(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The directions of a subspace, given by a basis, in which rows are widest first; their signs are settled."""
    if basis.shape[1] == 0:
        return basis
    _, _, turn = np.linalg.svd(rows @ basis, full_matrices=True)
    found = basis @ turn.T
    largest = np.abs(found).argmax(axis=0)
    return found * np.sign(found[largest, np.arange(found.shape[1])])


def frame(run: Any, axes: Axes, step: int, rows: list[Any], **facts: Any) -> bytes:
    """The clouds at a step whose clouds are kept (or now), and the rows that the page has not seen yet.

    `run` has `clouds`, `kept` and `at`, as a LabRun and what a notebook watches have.
    """
    clouds = run.clouds if step == run.at else run.kept[step]
    lanes, bodies, reach = [], [], np.full(3, 1e-12)
    seen = {
        lane: {name: axes.seen(one.atoms) for name, one in by_player(cloud).items()} for lane, cloud in clouds.items()
    }
    for shown in (part for players in seen.values() for part in players.values()):
        widest = np.maximum(shown.max(axis=1, initial=0.0), -shown.min(axis=1, initial=0.0))
        reach[: len(shown)] = np.maximum(reach[: len(shown)], widest)
    for lane, cloud in clouds.items():
        players = []
        for name, one in by_player(cloud).items():
            masses = weighed(np.asarray(one.weights))
            players.append({"name": name.strip(), "n": one.n, "weighs": masses is not None})
            bodies += [placed(seen[lane][name], reach), b"" if masses is None else masses.tobytes()]
        lanes.append({"name": lane, "players": players})
    header = {"type": "frame", "step": step, "head": run.at, "lanes": lanes, "reach": list(reach), "rows": rows}
    return message({**header, "places": len(axes.names), **facts}, *bodies)


def placed(shown: Float[np.ndarray, "k n"], reach: np.ndarray) -> bytes:
    """Places of a cloud along each axis, as 16-bit integers (k, n). The places given are used up."""
    shown *= (UNIT / reach[: len(shown)]).astype(np.float32)[:, None]
    return np.rint(shown, out=shown).astype("<i2").tobytes()


def weighed(weights: np.ndarray) -> Int16[np.ndarray, "n"] | None:
    """n times the weights in 1/256, as 16-bit integers; None where all are the same."""
    masses = np.clip(np.rint(weights * np.float32(len(weights) * 256.0)), 0, UNIT).astype("<i2")
    return None if np.all(masses == 256) else masses


def scene(run: LabRun, axes: Axes) -> dict[str, Any]:
    """What stands still in a picture: the axes' names, E^G, the teacher, and how to go back from the picture to R^p."""
    teacher = run.problem.teacher
    points = [] if teacher is None else axes.seen(np.asarray(teacher.atoms, float)[:256]).T.tolist()
    return {
        "axes": axes.names,
        "fixed": axes.fixed.tolist(),
        "teacher": points,
        "matrix": axes.matrix.tolist(),
        "p": run.problem.action.dim,
        "unseen": _unseen(run, axes).tolist(),
        "coordinates": [_called(run.state, i, run.problem.unit) for i in range(run.problem.action.dim)],
        "jumps": jumping(run.pieces),
        "well": run.state.task == "well" and run.state.axes == "coordinates" and len(axes.names) == 2,
        "inputs": None if run.problem.unit is None else run.problem.unit.inputs,
    }


def _unseen(run: LabRun, axes: Axes) -> Float[np.ndarray, "p"]:
    """What an atom has beyond the axes where it is drawn by mouse: outputs of one, or it would say nothing."""
    rest = np.zeros(run.problem.action.dim)
    if run.problem.unit is not None and run.state.unit in ("Perceptron", "Bump"):
        rest[: run.problem.unit.outputs] = 1.0
    return rest - axes.matrix @ (axes.matrix.T @ rest)


def jumping(pieces: Any) -> bool:
    """Whether particles are born and die on the way: then the page looks for those that have jumped."""
    return any(isinstance(lane.scheme, hf.BirthDeath) for lane in pieces.lanes.values())


def function_message(run: LabRun, step: int, what: str) -> bytes | None:
    """A picture of f, or of |f − Qf|, of every lane over the inputs; None where they have three dimensions or more."""
    unit, sample = run.problem.unit, run.problem.sample
    if unit is None or sample is None or unit.inputs not in GRID:
        return None
    clouds = run.clouds if step == run.at else run.kept[step]
    reach = float(np.abs(np.asarray(sample.xs)).max()) / (2 if run.state.data == "teacher" else 1)
    ticks = np.linspace(-reach, reach, GRID[unit.inputs])
    xs = np.stack(np.meshgrid(*[ticks] * unit.inputs, indexing="xy"), axis=-1).reshape(-1, unit.inputs)
    values = [_values(run, cloud, xs, what) for cloud in clouds.values()]
    lanes = list(clouds)
    if run.problem.teacher is not None and what == "f":
        lanes, values = [*lanes, "teacher"], [*values, _values(run, run.problem.teacher, xs, "f")]
    header = {"type": "function", "what": what, "lanes": lanes, "side": len(ticks), "inputs": unit.inputs}
    if unit.inputs == 1 and run.state.data != "teacher":
        header["sample"] = np.stack([np.asarray(sample.xs)[:500, 0], np.asarray(sample.ys)[:500, 0]], 1).tolist()
    return message({**header, "reach": reach, "step": step}, np.stack(values).astype("<f4").tobytes())


def _values(run: LabRun, cloud: Any, xs: np.ndarray, what: str) -> np.ndarray:
    """The first output of the network, or the size of its asymmetric part."""
    here, averaged = _networks(run.problem.unit, run.problem.averaged, cloud, np.asarray(xs, cloud.atoms.dtype))
    plain = np.asarray(here)
    return plain[:, 0] if what == "f" else np.sqrt(np.sum((plain - np.asarray(averaged)) ** 2, axis=1))


@eqx.filter_jit
def _networks(unit: Any, averaged: Any, cloud: Any, xs: Any) -> tuple[Any, Any]:
    return hf.network(unit, cloud, xs), hf.network(averaged, cloud, xs)
