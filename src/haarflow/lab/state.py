"""What the lab shows, as one frozen value: every control with its bounds, where each acts, and what a run would cost.

The page's form, the link, the TOML file, the command and the Python script are all made of it, and read by it again.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from haarflow.errors import Refusal
from haarflow.lab.group_words import group_of
from haarflow.runs.config import checked

VERSION = 1
PARTICLES, STEPS = 100_000, 1_000_000
DIMENSION, ORDER, PARAMETERS = 16, 2000, 64  # of inputs, of groups, of particles: more is refused
SECONDS, BYTES = 20.0, 2e9  # that one record of a run may cost, by the estimate
SLIDES, RESTARTS, RECOMPILES, LOOKS = "slides", "restarts", "recompiles", "looks"

Scheme = Literal["vanilla", "DA", "FA", "EA"]
Point = Annotated[tuple[Annotated[float, Field(ge=-1e3, le=1e3)], ...], Field(max_length=PARAMETERS)]


def control(acts: str, group: str, title: str, **rules: Any) -> Any:
    """A field of the state: when it acts, in which part of the form it stands, and its bounds."""
    scale = "log" if rules.pop("log", False) else "linear"
    return Field(title=title, json_schema_extra={"acts": acts, "group": group, "scale": scale}, **rules)


class Change(BaseModel):
    """Numbers that were turned at a step of the run; those that are None stayed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    step: int = Field(ge=0, le=STEPS)
    dt: float | None = Field(default=None, ge=1e-6, le=100.0)
    temperature: float | None = Field(default=None, ge=0.0, le=10.0)
    penalty: float | None = Field(default=None, ge=0.0, le=10.0)
    rate: float | None = Field(default=None, ge=0.0, le=100.0)

    @property
    def numbers(self) -> dict[str, float]:
        """What was turned, by name."""
        return self.model_dump(exclude={"step"}, exclude_none=True)


class LabState(BaseModel):
    """One picture of the lab. A control either slides (a number changes at once), restarts the run, recompiles its
    program and restarts it, or changes the look alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name: ClassVar[str] = "lab"

    version: Literal[1] = Field(default=VERSION, title="version of this schema")
    task: Literal["learn", "well", "game"] = control(RECOMPILES, "task", "what is played", default="learn")
    schemes: tuple[Scheme, ...] = control(
        RECOMPILES, "task", "schemes", default=("vanilla", "DA", "FA", "EA"), min_length=1, max_length=4
    )
    seed: int = control(RESTARTS, "task", "seed", default=0, ge=0, le=2**31 - 1)
    precision: Literal["float32", "float64"] = control(RECOMPILES, "task", "precision", default="float32")

    group: str = control(RECOMPILES, "symmetry", "group", default="Cyclic(2)", min_length=1, max_length=2000)
    outputs_move: bool = control(RECOMPILES, "symmetry", "the group moves outputs too", default=True)
    exact: bool = control(RECOMPILES, "symmetry", "augment by the whole group", default=True)

    unit: Literal["Dense", "Perceptron", "TwoLayer", "Quadratic", "Bump"] = control(
        RECOMPILES, "model", "unit", default="Dense"
    )
    activation: Literal["sigmoid", "tanh", "relu", "erf", "softplus", "cos", "ramp"] = control(
        RECOMPILES, "model", "activation", default="sigmoid"
    )
    outputs: int = control(RECOMPILES, "model", "outputs, where they stay", default=1, ge=1, le=8)
    output_scale: float = control(
        RECOMPILES, "model", "scale of outputs κ (time slows by κ²)", default=1.0, ge=0.01, le=1000.0, log=True
    )
    loss: Literal["square", "half-square", "logistic"] = control(RECOMPILES, "model", "loss", default="square")

    data: Literal["teacher", "mixture", "upload"] = control(RECOMPILES, "data", "data", default="teacher")
    teacher: Literal["arbitrary", "weak", "strong"] = control(RECOMPILES, "data", "teacher", default="arbitrary")
    teacher_atoms: int = control(RECOMPILES, "data", "teacher's atoms", default=5, ge=1, le=64)
    teacher_seed: int = control(RESTARTS, "data", "teacher's seed", default=1, ge=0, le=2**31 - 1)
    teacher_points: Annotated[tuple[Point, ...], Field(max_length=64)] = control(
        RECOMPILES, "data", "teacher's atoms as drawn", default=()
    )
    input_scale: float = control(RESTARTS, "data", "scale of inputs", default=4.0, ge=0.01, le=100.0, log=True)
    label_noise: float = control(RESTARTS, "data", "label noise", default=0.0, ge=0.0, le=10.0)
    batch: int = control(RECOMPILES, "data", "batch (0: the whole sample)", default=20, ge=0, le=4096)
    upload: str = control(RECOMPILES, "data", "uploaded data", default="", max_length=64, pattern=r"^[0-9a-f]*$")
    upload_outputs: int = control(RECOMPILES, "data", "label columns of the file", default=1, ge=1, le=8)

    start: Literal["weak", "strong", "symmetrised"] = control(RECOMPILES, "start", "start", default="weak")
    particles: int = control(RECOMPILES, "start", "particles N", default=500, ge=1, le=PARTICLES, log=True)
    deviation: float = control(RESTARTS, "start", "spread of the start", default=0.25, ge=0.0, le=100.0, log=True)
    centre: Point = control(RESTARTS, "start", "centre of the start, by coordinate", default=())
    spread: Point = control(RESTARTS, "start", "spread by coordinate", default=())

    dt: float = control(SLIDES, "motion", "step dt", default=0.1, ge=1e-6, le=100.0, log=True)
    temperature: float = control(SLIDES, "motion", "temperature", default=1e-6, ge=0.0, le=10.0, log=True)
    projected: bool = control(RECOMPILES, "motion", "projected noise for all", default=False)
    penalty: float = control(SLIDES, "motion", "penalty τ", default=2e-4, ge=0.0, le=10.0, log=True)
    growth: Literal["none", "weights", "birth-death", "re-injection"] = control(
        RECOMPILES, "motion", "growth", default="none"
    )
    rate: float = control(SLIDES, "motion", "rate of growth", default=1.0, ge=0.0, le=100.0, log=True)
    optimiser: Literal["Euler", "Heun", "Extragradient", "momentum", "adam"] = control(
        RECOMPILES, "motion", "optimiser", default="Euler"
    )

    steps: int = control(LOOKS, "run", "steps of the run", default=2000, ge=1, le=STEPS, log=True)
    every: int = control(RESTARTS, "run", "steps between records", default=5, ge=1, le=10_000, log=True)
    changes: Annotated[tuple[Change, ...], Field(max_length=100)] = Field(default=(), title="what was turned, and when")

    axes: Literal["fixed", "coordinates", "principal"] = control(LOOKS, "view", "axes", default="fixed")
    dimensions: Literal[2, 3] = control(LOOKS, "view", "dimensions", default=2)
    first: int = control(LOOKS, "view", "first coordinate", default=0, ge=0, le=PARAMETERS - 1)
    second: int = control(LOOKS, "view", "second coordinate", default=1, ge=0, le=PARAMETERS - 1)
    third: int = control(LOOKS, "view", "third coordinate", default=2, ge=0, le=PARAMETERS - 1)
    function: Literal["none", "f", "f − Qf"] = control(LOOKS, "view", "function", default="none")
    log_curves: bool = control(LOOKS, "view", "logarithmic curves", default=True)
    preset: str = Field(default="", max_length=40, pattern=r"^[a-z0-9-]*$", title="lesson")

    def fitting(self) -> "LabState":
        """This state, if what one field says can be borne by the others; or a refusal."""
        words = group_of(self.group)
        d, order, learns = words.rep.dim, words.group.order, self.task == "learn"
        if d > DIMENSION or order > ORDER:
            raise Refusal(
                f"A group of the lab acts on R^{DIMENSION} at most, with {ORDER} elements at most; got {order} on "
                f"R^{d}. Write a smaller group."
            )
        if learns and self.data == "mixture" and (d != 1 or self.unit != "Bump" or self.outputs_move):
            raise Refusal(
                f"The mixture lives on the line; got the unit {self.unit} on R^{d}. "
                "Write group Signs(1), unit Bump and outputs that stay."
            )
        if learns and self.data == "upload" and not self.upload:
            raise Refusal("Uploaded data must be given first; got none. Choose a file.")
        if not learns and self.growth == "re-injection":
            raise Refusal(
                f"Re-injection is for units with outputs; got the task {self.task}. "
                "Choose another growth, or the task learn."
            )
        if self.growth == "re-injection" and self.unit not in ("Bump", "Perceptron"):
            raise Refusal(
                f"Re-injected particles begin without output; got the unit {self.unit}. "
                "Choose the unit Bump or Perceptron."
            )
        if self.unit == "Quadratic" and learns and (self.outputs_move or self.outputs != 1):
            got = "one that moves" if self.outputs_move else self.outputs
            raise Refusal(
                f"A Quadratic unit has one output, which stays; got {got}. "
                "Write one output, which the group does not move."
            )
        if self.data == "teacher" and learns and self.batch == 0:
            raise Refusal("A teacher's data are drawn batch by batch; got a batch of 0. Write a batch of 1 or more.")
        if len(set(self.schemes)) < len(self.schemes):
            raise Refusal(f"Each scheme is shown once; got {', '.join(self.schemes)}. Write each of them once.")
        steps = [change.step for change in self.changes]
        if steps != sorted(set(steps)):
            raise Refusal(f"Changes are in the order of their steps, one for each step; got {steps[:9]}. Sort them.")
        return self

    def at(self, step: int) -> "LabState":
        """This state with the numbers as they are after the changes up to a step."""
        turned: dict[str, float] = {}
        for change in self.changes:
            if change.step <= step:
                turned |= change.numbers
        return self.model_copy(update=turned)

    def turned(self, step: int, numbers: dict[str, float]) -> "LabState":
        """This state with numbers turned at a step; what was turned later is forgotten. At step 0 they are its own."""
        kept = [change for change in self.changes if change.step < step]
        if step == 0:
            return validated({**self.model_dump(mode="json"), **numbers, "changes": []})
        same = [change.numbers for change in self.changes if change.step == step]
        new = Change.model_validate({"step": step, **(same[0] if same else {}), **numbers})
        changes = [change.model_dump(mode="json", exclude_none=True) for change in (*kept, new)]
        return validated({**self.model_dump(mode="json", exclude_none=True), "changes": changes})


def validated(values: Any) -> LabState:
    """The state with these values, or one sentence that says what is wrong with them."""
    if not isinstance(values, dict):
        raise Refusal(f"A state of the lab is a table of settings; got {type(values).__name__}.")
    return checked(LabState, values).fitting()


class Cost(BaseModel):
    """What a state would cost, by a rough estimate: seconds for a step, bytes while it runs."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    bytes: float
    parameters: int

    def refuse(self, state: LabState) -> None:
        """One sentence, where a record would take too long or too much."""
        if self.seconds * state.every > SECONDS:
            raise Refusal(
                f"A record of a lab run takes {SECONDS:g} s at most; this one would take about "
                f"{self.seconds * state.every:,.0f} s. Write fewer particles, a smaller batch or a smaller `every`."
            )
        if self.bytes > BYTES:
            raise Refusal(
                f"A lab run holds {BYTES / 1e9:g} GB at most; this one would hold about {self.bytes / 1e9:,.1f} GB. "
                "Write fewer particles or a smaller batch."
            )
        if self.parameters > PARAMETERS:
            raise Refusal(
                f"A particle of the lab has {PARAMETERS} parameters at most; this unit has {self.parameters}. "
                "Write a smaller group, or a unit with fewer."
            )


def cost_of(state: LabState, rows: int = 0) -> Cost:
    """The estimate: every scheme shows its batch to every particle, DA and FA through the whole group.

    `rows` is the size of an uploaded sample. The constants are for one core of a slow laptop.
    """
    words = group_of(state.group)
    d, order = words.rep.dim, words.group.order
    c = d if state.outputs_move else state.outputs
    p = {"Dense": c * d, "Perceptron": c + d + 1, "TwoLayer": 4 * (c + d + 1), "Quadratic": d, "Bump": c + d}[
        state.unit
    ]
    if state.task != "learn":
        p = d
    batch = {"teacher": state.batch, "mixture": 24, "upload": state.batch or max(rows, 1)}[state.data]
    shown = {"vanilla": 1, "EA": 1, "DA": order if state.exact else 1, "FA": order}
    images = sum(shown[scheme] for scheme in state.schemes) if state.task == "learn" else len(state.schemes)
    work = float(state.particles) * batch * images * (p + c + 8)
    held = 8.0 * state.particles * (p + 1) * len(state.schemes) * 64 + 8.0 * min(state.particles * batch * images, 1e8)
    return Cost(seconds=2e-9 * work + 1e-8 * state.particles * p, bytes=held, parameters=p)


def acting(kind: str) -> tuple[str, ...]:
    """The names of the controls that slide, restart, recompile or look."""
    extras = {name: field.json_schema_extra for name, field in LabState.model_fields.items()}
    return tuple(name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("acts") == kind)


def tasks_of(name: str) -> tuple[str, ...]:
    """The tasks in which a control does something."""
    extra = LabState.model_fields[name].json_schema_extra
    group = extra["group"] if isinstance(extra, dict) else ""
    if group in ("model", "data") or name in ("outputs_move", "exact", "function"):
        return ("learn",)
    return ("learn", "well") if name in ("schemes", "projected", "optimiser") else ("learn", "well", "game")
