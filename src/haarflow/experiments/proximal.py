"""Proximal steps: minimizing movements follow the flow, to first order, and the energy falls at every step."""

from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid, fokker_planck, free_energy, gibbs
from haarflow.dynamics.limits import Pairwise
from haarflow.dynamics.proximal import (
    entropic_step,
    gaussian_step,
    grid_quantiles,
    mirror_step,
    quantile_energy,
    quantile_step,
)
from haarflow.dynamics.schemes import Adaptive, Euler
from haarflow.learning.data import Sample
from haarflow.learning.risks import Functional, Risk
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.units import Dense
from haarflow.runs.experiment import Count, Experiment, Panel, Positive, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

FORMS = ("Gaussian", "quantile", "entropic", "mirror")
START = (0.3, 0.4)  # the mean and the deviation of the start on the line
SPRING = {"stiffness": 1.3, "temperature": 0.4}  # the Gaussian closed form
TAUS = (0.01, 0.1, 1.0, 10.0)  # at which the fixed point is checked


def wells() -> Functional:
    """A double well on the line whose particles push each other's mean away: convex in the law, so with one optimum."""
    return Pairwise(lambda theta: jnp.sum((theta**2 - 1) ** 2) / 4, lambda a, b: 0.3 * jnp.sum(a * b))


class Proximal(Experiment):
    """Proximal steps follow their flow to first order in tau, and the energy falls at every one of them: transport
    steps in closed form for Gaussians, by quantiles on the line and by entropic transport on a grid, and mirror
    descent, which is the same step with relative entropy for its distance.

    Source: lectures 7 and 8 on mean-field networks (minimizing movements, the JKO step, mirror descent).

    The step is `argmin F(mu) + W2²(mu, last)/2 tau`, with the SQUARED distance and the risk with its half: it then runs
    at the speed of the particles. Every form is compared at time T with the flow itself: Gaussian closed form; the
    ordinary differential equation of the same quantiles, by an implicit solver to 1e-9; the grid's Fokker–Planck flow;
    the Fisher–Rao flow by error control. The entropic form takes the interaction at the start of
    a step.

    The field `fault` plants a mistake on purpose, to see the verdicts on the order fail: `double speed` weighs the
    squared distance by 1/4 tau, as a risk without its half does.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 4.0

    temperature: Positive = 0.2
    horizon: Positive = 0.8
    steps: Annotated[tuple[Count, ...], Field(min_length=2)] = (8, 16, 32)
    quantiles: Count = 64
    cells: Count = 240
    atoms: Count = 40
    fault: Literal["none", "double speed"] = "none"

    @classmethod
    def full(cls):
        return cls(steps=(8, 16, 32, 64), quantiles=200, cells=480, atoms=400)

    def parts(self):
        return ["quantile", "entropic", "mirror", "Gaussian"]

    def run(self, key, part):
        forms = {"Gaussian": self.gaussian, "quantile": self.quantile, "entropic": self.entropic, "mirror": self.mirror}
        return forms[part](key)

    def _tau(self, steps: int) -> float:
        return self.horizon / steps * (2 if self.fault == "double speed" else 1)

    def gaussian(self, key) -> dict[str, np.ndarray]:
        """The closed form against the exact mean and deviation; its energy; its fixed point for every tau."""
        h, beta = SPRING["stiffness"], SPRING["temperature"]
        errors, rises = [], []
        exact = 1.5 * np.exp(-h * self.horizon), np.sqrt(beta / h + (0.09 - beta / h) * np.exp(-2 * h * self.horizon))
        for steps in self.steps:
            path = [(1.5, 0.3)]
            for _ in range(steps):
                path.append(gaussian_step(*path[-1], tau=self._tau(steps), **SPRING))
            m, s = np.array(path).T
            errors.append(np.hypot(m[-1] - exact[0], s[-1] - exact[1]))
            rises.append(np.diff(h * (m**2 + s**2) / 2 - beta * np.log(s)).max())
        still = np.sqrt(beta / h)
        moved = [abs(gaussian_step(0.0, still, tau=tau, **SPRING)[1] - still) for tau in TAUS]
        return {"errors": np.array(errors), "rise": np.max(rises), "fixed": np.max(moved)}

    @staticmethod
    def _by_quantiles(tau: float, n: int = 200) -> float:
        """One quantile step from a normal law against the closed form: the relative error of the deviation."""
        from scipy.special import ndtri

        spring = Pairwise(lambda theta: SPRING["stiffness"] * jnp.sum(theta**2) / 2, lambda a, b: 0.0 * a[0] * b[0])
        moved = quantile_step(spring, 0.3 * ndtri((np.arange(n) + 0.5) / n), temperature=SPRING["temperature"], tau=tau)
        middle = slice(n // 10, -n // 10)
        normal = ndtri((np.arange(n) + 0.5) / n)[middle]
        found = moved[middle] @ normal / (normal @ normal)
        return abs(found / gaussian_step(0.0, 0.3, tau=tau, **SPRING)[1] - 1)

    def quantile(self, key) -> dict[str, np.ndarray]:
        """Quantile steps in the double well: against the ordinary differential equation, and against the grid."""
        from scipy.special import ndtri

        energy, runs, errors, rises, values = wells(), [], [], [], []
        for place, steps in enumerate(self.steps):
            path = self._quantile_path(energy, self.quantiles, steps)
            errors.append(_root_mean_square(path[-1] - self._quantile_flow(energy, path[0])))
            values = [float(_quantile_value(energy, jnp.asarray(x), jnp.asarray(self.temperature))) for x in path]
            rises.append(np.diff(values).max())
            runs.append(path)
            tell((place + 1) / (len(self.steps) + 1))
        grid, law = self._flow()
        joint = [runs[-1][-1]]
        for part in (2, 4):  # fewer quantiles and longer steps together
            if self.quantiles // part >= 4 and self.steps[-1] // part >= 1:
                joint.append(self._quantile_path(energy, self.quantiles // part, self.steps[-1] // part)[-1])
        gaps = [_root_mean_square(x - grid_quantiles(grid, law[-1], len(x))) for x in joint]
        return {
            "errors": np.array(errors),
            "rise": np.max(rises),
            "joint": np.array(gaps),
            "closed form": np.array([self._by_quantiles(tau) for tau in (0.1, 1.0)]),
            "energies": np.array(values),
            "path": runs[-1],
            "normal": START[0] + START[1] * ndtri((np.arange(self.quantiles) + 0.5) / self.quantiles),
        }

    def _quantile_path(self, energy, n: int, steps: int) -> np.ndarray:
        from scipy.special import ndtri

        path = [START[0] + START[1] * ndtri((np.arange(n) + 0.5) / n)]
        for _ in range(steps):
            path.append(quantile_step(energy, path[-1], temperature=self.temperature, tau=self._tau(steps)))
        return np.array(path)

    def _quantile_flow(self, energy, start: np.ndarray) -> np.ndarray:
        """`x' = −n ∇F(x)` for the same quantiles, by an implicit solver."""
        from scipy.integrate import solve_ivp

        beta = jnp.asarray(self.temperature)
        solved = solve_ivp(
            lambda _, x: -np.asarray(_quantile_slope(energy, jnp.asarray(x), beta)),
            (0.0, self.horizon),
            start,
            method="Radau",
            jac=lambda _, x: -np.asarray(_quantile_bend(energy, jnp.asarray(x), beta)),
            rtol=1e-9,
            atol=1e-10,
        )
        return solved.y[:, -1]

    def _flow(self) -> tuple[Grid, np.ndarray]:
        """The Fokker–Planck flow of the double well at fine steps: laws at the times of the coarsest steps."""
        grid, fine = Grid(-2.6, 2.6, self.cells), 1024
        start = grid.normal(*START)
        options = {"dt": self.horizon / fine, "steps": fine, "every": fine // 8}
        return grid, fokker_planck(wells(), grid, start, temperature=self.temperature, **options).weights

    def entropic(self, key) -> dict[str, np.ndarray]:
        """Entropic steps on a grid against the flow on the same grid, as distances of quantiles."""
        energy, (grid, law) = wells(), self._flow()
        wanted = grid_quantiles(grid, law[-1], 400)
        errors, rises, path = [], [], []
        for place, steps in enumerate(self.steps):
            path = [grid.normal(*START)]
            tau = self._tau(steps)
            for _ in range(steps):
                path.append(entropic_step(energy, grid, path[-1], temperature=self.temperature, tau=tau))
            values = [free_energy(energy, grid, one, temperature=self.temperature) for one in path]
            errors.append(_root_mean_square(grid_quantiles(grid, np.asarray(path[-1].weights), 400) - wanted))
            rises.append(np.diff(values).max())
            tell((place + 1) / len(self.steps))
        return {
            "errors": np.array(errors),
            "rise": np.max(rises),
            "law": np.asarray(path[-1].weights) / grid.volume,
            "flow": law / grid.volume,
            "centres": grid.centres[:, 0],
        }

    def mirror(self, key) -> dict[str, np.ndarray]:
        """Mirror steps against the Fisher–Rao flow and the multiplicative update, and down to the Gibbs law."""
        draw = generator(key)
        xs = draw.normal(size=(12, 2))
        risk = Risk(Dense(2, 1, "tanh"), Sample(xs, 0.6 * np.sin(2 * xs[:, :1])))
        start = Cloud(2 * draw.normal(size=(self.atoms, 2)), draw.dirichlet(np.full(self.atoms, 2.0)))
        end, field = 10 * self.horizon, Descend(risk, transport=0.0, growth=1.0)
        still = jax.random.key(0)
        exact = np.asarray(flow(field, Adaptive(), start, key=still, dt=end, steps=1).cloud.weights)
        errors, rises = [], []
        for steps in self.steps:
            path = [start]
            for _ in range(steps):
                path.append(_mirrored(risk, path[-1], jnp.asarray(10 * self._tau(steps)), jnp.asarray(0.0)))
            values = [float(_value(risk, one)) for one in path]
            errors.append(np.abs(np.asarray(path[-1].weights) - exact).sum())
            rises.append(np.diff(values).max())
        steps = self.steps[0]
        update = flow(field, Euler(), start, key=still, dt=10 * self._tau(steps), steps=steps).cloud
        again = start
        for _ in range(steps):
            again = _mirrored(risk, again, jnp.asarray(10 * self._tau(steps)), jnp.asarray(0.0))
        return {
            "errors": np.array(errors),
            "rise": np.max(rises),
            "update": np.abs(np.asarray(update.weights - again.weights)).max(),
            "gibbs": self._to_gibbs(),
        }

    def _to_gibbs(self) -> np.ndarray:
        """How far, in total mass, a hundred mirror steps with temperature end from the Gibbs law."""
        grid, energy = Grid(-2.6, 2.6, self.cells), wells()
        law = grid.normal(*START)
        for _ in range(100):
            law = _mirrored(energy, law, jnp.asarray(2.0), jnp.asarray(self.temperature))
        best = gibbs(energy, grid, temperature=self.temperature).cloud
        return np.asarray(np.abs(np.asarray(law.weights - best.weights)).sum())

    def orders(self, data) -> dict[str, float]:
        """The order in tau of each form."""
        return {form: -slope(self.steps, data[f"{form}/errors"]).value for form in FORMS}

    def verdict(self, data):
        orders = self.orders(data)
        claims = {f"{form}: order in tau between 0.85 and 1.15": between(orders[form], 0.85, 1.15) for form in FORMS}
        claims |= {
            f"{form}: the energy falls at every step, to 1e-12": below(data[f"{form}/rise"], 1e-12) for form in FORMS
        }
        joint = data["quantile/joint"]
        return claims | {
            "Gaussian: the variance temperature / stiffness is fixed for every tau, to 1e-14": below(
                data["Gaussian/fixed"], 1e-14
            ),
            "quantile: one step of 200 quantiles has the closed form's deviation, within 2%": below(
                data["quantile/closed form"].max(), 0.02
            ),
            "convergence: quantiles and steps doubled together, each error below 0.7 of the last": below(
                (joint[:-1] / joint[1:]).max(), 0.7
            ),
            "mirror: without temperature it is the multiplicative update, to 1e-13": below(
                data["mirror/update"], 1e-13
            ),
            "mirror: with temperature its steps end at the Gibbs law, to 1e-6 in mass": below(
                data["mirror/gibbs"], 1e-6
            ),
        }

    def figures(self, data):
        numbers = {f"order in tau, {form}": order for form, order in self.orders(data).items()}
        numbers |= {f"error at the shortest steps, {form}": data[f"{form}/errors"][-1] for form in FORMS}
        return numbers | {
            "distance of quantiles to the grid's flow": data["quantile/joint"][0],
            "quantile step against the closed form": data["quantile/closed form"].max(),
        }

    def panels(self, data):
        return [self._order_panel(data), self._law_panel(data)]

    def _order_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import legend, reference, slopes

            axis = figure.add_subplot()
            sizes = np.array(self.steps)
            series = {form: data[f"{form}/errors"] for form in FORMS}
            slopes(axis, sizes, series, xlabel=f"steps to t = {self.horizon:g}, T / tau", ylabel="error at the end")
            reference(axis, sizes, -1.0, float(min(row[0] for row in series.values()) / 2))
            legend(axis)

        caption = (
            "Every form of the proximal step approaches its flow like the first power of tau: transport steps "
            "(Gaussian, quantile, entropic) their Wasserstein flow, mirror descent the Fisher–Rao flow."
        )
        return Panel("First order in tau", caption, draw)

    def _law_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour

            left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
            path, centres = data["quantile/path"], data["entropic/centres"]
            left.plot(centres, data["entropic/flow"][0], color=colour("", 6), label="start")
            left.plot(centres, data["entropic/flow"][-1], color=INK, label="Fokker–Planck flow")
            left.plot(centres[::4], data["entropic/law"][::4], "o", color=colour("FA"), label="entropic steps")
            middles = (path[-1][1:] + path[-1][:-1]) / 2
            left.plot(
                middles, 1 / (self.quantiles * np.diff(path[-1])), "x", color=colour("EA"), label="quantile steps"
            )
            left.set(xlabel=r"$\theta$", ylabel="density", ylim=(0, None))
            left.legend(loc="upper left")
            right.plot(np.arange(len(data["quantile/energies"])), data["quantile/energies"], ".-", color=colour("EA"))
            right.set(xlabel="quantile steps", ylabel="free energy F")

        caption = (
            "A law in a double well, pushed by its own mean: after the shortest steps the two transport forms lie on "
            "the flow (left), and every step has lowered the free energy (right)."
        )
        return Panel("Minimizing movements on the flow", caption, draw, size=(10.2, 3.9))


def _root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _scaled(energy, x, beta):
    return len(x) * quantile_energy(energy, x, temperature=beta)


@eqx.filter_jit
def _quantile_value(energy, x, beta):
    return quantile_energy(energy, x, temperature=beta)


@eqx.filter_jit
def _quantile_slope(energy, x, beta):
    return jax.grad(_scaled, argnums=1)(energy, x, beta)


@eqx.filter_jit
def _quantile_bend(energy, x, beta):
    return jax.hessian(_scaled, argnums=1)(energy, x, beta)


@eqx.filter_jit
def _mirrored(functional, cloud: Cloud, tau, temperature):
    return mirror_step(functional, cloud, tau=tau, temperature=temperature)


@eqx.filter_jit
def _value(functional, cloud: Cloud):
    return functional(cloud)
