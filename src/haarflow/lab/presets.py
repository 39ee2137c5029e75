"""Lessons: states with a story and a caption that says what to look for; each is a link, `#preset=NAME`."""

from typing import Any, NamedTuple

from haarflow.errors import one_of
from haarflow.lab.state import LabState, validated

SOURCE = "Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995)"
POINTS = [
    [-0.5, 0.0, 0.0, 0.25],
    [0.25, 0.5, 0.0, 0.5],
    [-0.25, 0.15, 0.5, 0.0],
    [0.0, -0.5, -0.25, 0.5],
    [0.35, -0.35, 0.25, 0.35],
]
PUBLISHED: dict[str, Any] = {"teacher_points": POINTS, "particles": 500, "dt": 0.1, "every": 5, "steps": 3000}

ACTIVE: dict[str, Any] = {
    "group": "Signs(2)",
    "outputs_move": False,
    "unit": "Perceptron",
    "activation": "relu",
    "deviation": 1.0,
    "input_scale": 1.0,
    "temperature": 0.0,
    "penalty": 0.0,
    "batch": 64,
    "dt": 0.3,
    "loss": "half-square",
    "schemes": ["vanilla", "DA"],
    "function": "f",
    "teacher": "weak",
}


class Preset(NamedTuple):
    """A lesson: its title, its story, what to look for, the state, and the parts of the form that it hides."""

    title: str
    story: str
    look: str
    values: dict[str, Any]
    hides: tuple[str, ...] = ()


PRESETS = {
    "four-schemes": Preset(
        "Four schemes side by side",
        "A student learns a teacher that has no symmetry, by plain training and by the three ways to use a symmetry.",
        "EA lies on E^G, the line. DA and FA spread to both sides alike. Plain training goes to the teacher's side.",
        PUBLISHED,
    ),
    "theorem-2": Preset(
        "Theorem 2: DA and FA have one optimum",
        "The augmented and the averaged risk have the same optimum over all laws, that of the plain risk over weakly "
        "invariant laws; laws on E^G can miss it.",
        "The risks of DA and FA fall to the same level; EA's, on the small space E^G, stays at its own; and plain "
        "training, which need not be invariant, goes below all of them.",
        {**PUBLISHED, "temperature": 0.0, "penalty": 0.0, "batch": 64, "dt": 0.3, "every": 10},
        ("data", "model"),
    ),
    "theorem-3": Preset(
        "Theorem 3: weak invariance is kept",
        "Where data and start are weakly invariant, so is the law at all times, even under plain training.",
        "The distance to WI of every scheme stays small, as small as that of its start, which is a finite cloud.",
        {**PUBLISHED, "teacher": "weak"},
        ("model",),
    ),
    "theorem-4": Preset(
        "Theorem 4: DA and FA follow one path",
        "From a weakly invariant start DA and FA have the same limit as particles grow in number; plain training "
        "shares it when the teacher is equivariant.",
        "Watch DA and FA: their curves of risk lie on each other, while plain training leaves. Write more particles, "
        "and they come closer.",
        {**PUBLISHED, "particles": 2000, "schemes": ["vanilla", "DA", "FA"]},
        ("model",),
    ),
    "theorem-5": Preset(
        "Theorem 5: E^G is never left",
        "From a strongly invariant start with noise projected on E^G, particles stay on E^G when the data are "
        "equivariant in law; DA makes any data so.",
        "DA, FA and EA stay on the line. Plain training leaves it at once under this teacher; choose the weak teacher, "
        "and it leaves by the noise of its batches only.",
        {**PUBLISHED, "start": "strong", "projected": True, "particles": 300},
        ("model",),
    ),
    "theorem-6": Preset(
        "Theorem 6: from E^G, three schemes are one",
        "From a strongly invariant start DA, FA and EA are one and the same path, whatever the teacher.",
        "The clouds and the curves of DA, FA and EA are the same; in float64, to rounding.",
        {
            **PUBLISHED,
            "start": "strong",
            "projected": True,
            "particles": 200,
            "schemes": ["DA", "FA", "EA"],
            "precision": "float64",
        },
        ("model",),
    ),
    "triangle": Preset(
        "The symmetries of a triangle",
        "Perceptrons tanh(w·x + b) in the plane, seen in three dimensions, under the six symmetries of a triangle.",
        "Drag to turn the picture: E^G is the plane of particles (a, 0, 0, b), which see no direction at all.",
        {
            "group": "Dihedral(3)",
            "outputs_move": False,
            "unit": "Perceptron",
            "activation": "tanh",
            "teacher": "weak",
            "deviation": 1.0,
            "particles": 600,
            "input_scale": 2.0,
            "dimensions": 3,
            "dt": 0.1,
            "function": "f",
            "steps": 3000,
        },
    ),
    "lazy": Preset(
        "Lazy training",
        "With outputs scaled by κ = 20, and time slowed by κ², the network fits while its particles hardly move: it is "
        "its own linearisation.",
        "The risk falls, and the clouds stand still. Compare with the lesson on active training: the same student "
        "with κ = 1.",
        {**ACTIVE, "output_scale": 20.0},
        ("symmetry",),
    ),
    "active": Preset(
        "Active training",
        "The mean-field scale κ = 1: particles move to features that the target is made of.",
        "The clouds move as far as they are wide, and the risk falls with them.",
        ACTIVE,
        ("symmetry",),
    ),
    "birth-death": Preset(
        "Birth and death leave a bad start",
        "Bumps on the line learn three Gaussians, but all begin at the left one. Particles that do worse than the "
        "average are killed and come back as fresh ones without output.",
        "Particles disappear at the left, where squares are, and appear everywhere, where rings are. Set growth to "
        "none: transport alone never finds the bump at the right.",
        {
            "data": "mixture",
            "group": "Signs(1)",
            "outputs_move": False,
            "unit": "Bump",
            "batch": 0,
            "loss": "half-square",
            "schemes": ["vanilla", "DA"],
            "centre": [0.0, -2.0],
            "spread": [1.0, 0.1],
            "deviation": 1.0,
            "particles": 200,
            "dt": 0.05,
            "growth": "re-injection",
            "rate": 5.0,
            "penalty": 0.0,
            "temperature": 0.0,
            "axes": "coordinates",
            "first": 1,
            "second": 0,
            "function": "f",
            "every": 10,
            "steps": 6000,
        },
    ),
    "langevin": Preset(
        "Langevin and its Gibbs law",
        "Particles in a potential with four wells, begun in one of them. Noise takes them to all wells, and their law "
        "to the Gibbs law exp(−V/temperature), which is invariant although the start was not.",
        "The shade is the Gibbs law. The free energy falls and settles, and the distance to WI falls to that of a "
        "finite sample. EA's particles "
        "keep to the diagonal: they find two wells only. Turn the temperature down, and the passes close.",
        {
            "task": "well",
            "group": "Symmetric(2)",
            "schemes": ["vanilla", "EA"],
            "penalty": 1.0,
            "temperature": 0.12,
            "dt": 0.05,
            "centre": [-1.0, 1.0],
            "deviation": 0.2,
            "particles": 1000,
            "axes": "coordinates",
            "steps": 10000,
        },
        ("data", "model"),
    ),
    "game": Preset(
        "A game of two players",
        "One player pulls the product x·y down and the other pulls it up; the equilibrium is where both means are "
        "zero.",
        "Under Euler's steps the players spiral away from the equilibrium; extragradient steps take them in.",
        {
            "task": "game",
            "group": "Signs(2)",
            "penalty": 0.0,
            "temperature": 0.0,
            "dt": 0.1,
            "centre": [1.0, 0.0],
            "deviation": 0.2,
            "particles": 300,
            "axes": "coordinates",
            "every": 1,
            "steps": 2000,
        },
        ("data", "model"),
    ),
    "many": Preset(
        "Twenty thousand particles",
        "The mean-field limit, nearly: a cloud of twenty thousand particles is close to its law.",
        "The clouds of DA and FA are as good as the same.",
        {**PUBLISHED, "particles": 20_000, "every": 10},
    ),
}


def preset(name: str) -> LabState:
    """The state of a lesson."""
    return validated({**PRESETS[one_of("A lesson", name, PRESETS)].values, "preset": name})


def listed() -> list[dict[str, Any]]:
    """The lessons as the page shows them."""
    return [{"name": name, **one._asdict(), "values": None} for name, one in PRESETS.items()]
