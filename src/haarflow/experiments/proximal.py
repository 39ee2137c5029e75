"""Proximal steps: minimizing movements follow the flow, to first order, and the energy falls at every step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ndtri

from haarflow.dynamics import proximal
from haarflow.dynamics.diffusion import fokker_planck
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.free_energies import free_energy, gibbs
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.pairwise import Pairwise
from haarflow.dynamics.schemes import Adaptive, Euler
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.units import Dense
from haarflow.runs.experiment import Experiment, below, named, over, panel, power_law, tell
from haarflow.runs.sizes import Count, Positive, Sizes
from haarflow.runs.style import INK, colour, power_laws

FORMS = ("quantile", "entropic", "mirror", "Gaussian")
START = (0.3, 0.4)  # the mean and the deviation of the start on the line
SPRING = {"stiffness": 1.3, "temperature": 0.4}  # the Gaussian closed form
TAUS = (0.01, 0.1, 1.0, 10.0)  # at which its fixed point is checked


def wells():
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
    the Fisher–Rao flow by error control. The entropic form takes the interaction at the start of a step.
    """

    group = "dynamics"
    tour_included = True
    seconds = 4.0
    faults = {"double speed": "the squared distance is weighed by 1/4 tau, as a risk without its half does"}

    temperature: Positive = 0.2  # weight of the entropy in the double well
    horizon: Positive = 0.8  # time T at which steps and flow are compared
    steps: Sizes = (8, 16, 32)  # numbers of proximal steps, T / tau
    quantiles: Count = 64  # quantiles of a law
    cells: Count = 240  # grid cells
    atoms: Count = 40  # atoms of the mirror descent

    @classmethod
    def full(cls):
        return cls(steps=(8, 16, 32, 64), quantiles=200, cells=480, atoms=400)

    def design(self):
        yield self.follow, over(form=FORMS)

    def follow(self, key, form):
        """One form of the step: errors at the end and rises of the energy, and what only this form can show."""
        forms = {"quantile": self.quantile, "entropic": self.entropic, "mirror": self.mirror, "Gaussian": self.gaussian}
        return forms[form](key)

    def _tau(self, steps):
        return self.horizon / steps * (2 if self.fault == "double speed" else 1)

    def _path(self, start, step, steps):
        """The laws of so many steps, where `step(law, tau)` makes one."""
        path = [start]
        for _ in range(steps):
            path.append(step(path[-1], self._tau(steps)))
        return path

    def _paths(self, start, step, energy, error):
        """The errors of the last laws and the largest rise of the energy; the last path, and its energies."""
        errors, rises, path, values = [], [], [], []
        for place, steps in enumerate(self.steps):
            path = self._path(start, step, steps)
            values = [energy(law) for law in path]
            errors.append(error(path[-1]))
            rises.append(np.diff(values).max())
            tell((place + 1) / len(self.steps))
        taus = [self.horizon / steps for steps in self.steps]
        return {"errors": named(errors, "tau", tau=taus), "rise": max(rises)}, path, values

    def gaussian(self, key):
        """The closed form against the exact mean and deviation; its fixed point for every tau."""
        h, beta = SPRING["stiffness"], SPRING["temperature"]
        mean = 1.5 * np.exp(-h * self.horizon)
        deviation = np.sqrt(beta / h + (0.09 - beta / h) * np.exp(-2 * h * self.horizon))
        found, *_ = self._paths(
            (1.5, 0.3),
            lambda law, tau: proximal.gaussian_step(*law, tau=tau, **SPRING),
            lambda law: h * (law[0] ** 2 + law[1] ** 2) / 2 - beta * np.log(law[1]),
            lambda law: np.hypot(law[0] - mean, law[1] - deviation),
        )
        still = np.sqrt(beta / h)
        moved = [proximal.gaussian_step(0.0, still, tau=tau, **SPRING)[1] - still for tau in TAUS]
        return found | {"fixed": np.abs(moved).max()}

    def quantile(self, key):
        """Quantiles in the double well, against their ordinary differential equation, the grid and the closed form."""

        energy, value = wells(), eqx.filter_jit(proximal.quantile_energy)

        def step(law, tau):
            return proximal.quantile_step(energy, law, temperature=self.temperature, tau=tau)

        start, end = _normal(self.quantiles, *START), self._quantile_flow(_normal(self.quantiles, *START))
        found, path, values = self._paths(
            start,
            step,
            lambda law: float(value(energy, law, temperature=jnp.asarray(self.temperature))),
            lambda law: _root_mean_square(law - end),
        )
        grid, law = self._flow()
        coarser = [(self.quantiles // part, self.steps[-1] // part) for part in (2, 4)]  # both, together
        ends = [self._path(_normal(n, *START), step, steps)[-1] for n, steps in coarser if n >= 4 and steps >= 1]
        joint = [_root_mean_square(x - proximal.grid_quantiles(grid, law[-1], len(x))) for x in (path[-1], *ends)]
        return found | {
            "joint": named(joint, "halved"),
            "closed": named([_deviation_error(tau) for tau in (0.1, 1.0)], "step_size"),
            "energies": named(values, "step"),
            "path": named(path, "step", "quantile"),
        }

    def _quantile_flow(self, start):
        """`x' = −n ∇F(x)` for the same quantiles, by an implicit solver."""
        rest = wells(), jnp.asarray(self.temperature)
        exact = {"method": "Radau", "rtol": 1e-9, "atol": 1e-10, "jac": lambda _, x: -np.asarray(_bend(x, *rest))}
        return solve_ivp(lambda _, x: -np.asarray(_slope(x, *rest)), (0.0, self.horizon), start, **exact).y[:, -1]

    def _flow(self):
        """The Fokker–Planck flow of the double well at fine steps: its grid, and laws at nine times."""
        grid, fine = Grid(-2.6, 2.6, self.cells), 1024
        options = {"dt": self.horizon / fine, "steps": fine, "every": fine // 8}
        return grid, fokker_planck(wells(), grid, grid.normal(*START), temperature=self.temperature, **options).weights

    def entropic(self, key):
        """Entropic steps on a grid against the flow on the same grid, as distances of quantiles."""
        energy, (grid, law) = wells(), self._flow()
        wanted, beta = proximal.grid_quantiles(grid, law[-1], 400), self.temperature
        found, path, _ = self._paths(
            grid.normal(*START),
            lambda law, tau: proximal.entropic_step(energy, grid, law, temperature=beta, tau=tau),
            lambda law: free_energy(energy, grid, law, temperature=beta),
            lambda law: _root_mean_square(proximal.grid_quantiles(grid, np.asarray(law.weights), 400) - wanted),
        )
        theta = grid.centres[:, 0]
        return found | {
            "law": named(np.asarray(path[-1].weights) / grid.volume, "theta", theta=theta),
            "flow": named(law / grid.volume, "time", "theta", theta=theta),
        }

    def mirror(self, key):
        """Mirror steps against the Fisher–Rao flow and the multiplicative update, and down to the Gibbs law."""
        draw, still = generator(key), jax.random.key(0)
        xs = draw.normal(size=(12, 2))
        risk = Risk(Dense(2, 1, "tanh"), Sample(xs, 0.6 * np.sin(2 * xs[:, :1])))
        start = Cloud(2 * draw.normal(size=(self.atoms, 2)), draw.dirichlet(np.full(self.atoms, 2.0)))
        field = Descend(risk, transport=0.0, growth=1.0)
        end = flow(field, Adaptive(), start, key=still, dt=10 * self.horizon, steps=1).cloud.weights

        def step(law, tau):
            return _mirrored(risk, law, tau=jnp.asarray(10 * tau), temperature=jnp.asarray(0.0))

        value = eqx.filter_jit(risk)
        found, *_ = self._paths(
            start, step, lambda law: float(value(law)), lambda law: float(abs(law.weights - end).sum())
        )
        steps = self.steps[0]
        update = flow(field, Euler(), start, key=still, dt=10 * self._tau(steps), steps=steps).cloud
        apart = abs(update.weights - self._path(start, step, steps)[-1].weights).max()
        return found | {"update": apart, "gibbs": self._to_gibbs()}

    def _to_gibbs(self):
        """How far, in total mass, a hundred mirror steps with temperature end from the Gibbs law."""
        energy, grid = wells(), Grid(-2.6, 2.6, self.cells)
        law = grid.normal(*START)
        for _ in range(100):
            law = _mirrored(energy, law, tau=jnp.asarray(2.0), temperature=jnp.asarray(self.temperature))
        return abs(law.weights - gibbs(energy, grid, temperature=self.temperature).cloud.weights).sum()

    def fits(self, data):
        return {form: power_law(errors, along="tau") for form, errors in data.errors.each("form")}

    def claims(self, data):
        for form, fit in data.fits.items():
            yield fit.called(f"{form}, error at the end").between(0.85, 1.15)
        for form, rise in data.rise.each("form"):
            yield below(f"{form}: largest rise of the energy in a step", rise, 1e-12)
        gaussian, quantile, mirror = ({"form": form} for form in ("Gaussian", "quantile", "mirror"))
        fixed = "Gaussian: the variance temperature / stiffness is fixed for every tau, to {bound:g}"
        yield below(fixed, data.fixed.sel(**gaussian), 1e-14)
        closed = "quantile: one step of 200 quantiles has the closed form's deviation, within {bound:.0%}"
        yield below(closed, data.closed.sel(**quantile).max(), 0.02)
        joint = data.joint.sel(**quantile).values
        halved = "convergence: quantiles and steps doubled together, each error over the last"
        yield below(halved, (joint[:-1] / joint[1:]).max(), 0.7)
        update = "mirror: without temperature it is the multiplicative update, to {bound:g}"
        yield below(update, data.update.sel(**mirror), 1e-13)
        ends = "mirror: with temperature its steps end at the Gibbs law, to {bound:g} in mass"
        yield below(ends, data.gibbs.sel(**mirror), 1e-6)

    def numbers(self, data):
        errors = {f"error at the shortest steps, {form}": errors[-1] for form, errors in data.errors.each("form")}
        return errors | {"distance of quantiles to the grid's flow": data.joint.sel(form="quantile")[0]}

    @panel(
        "First order in tau",
        "Every form of the proximal step approaches its flow like the first power of tau: transport steps (Gaussian, "
        "quantile, entropic) their Wasserstein flow, mirror descent the Fisher–Rao flow.",
    )
    def order(self, axis, data):
        """Errors against tau; two forms that agree are drawn as rings around each other."""
        from matplotlib.ticker import NullFormatter

        power_laws(axis, data.errors, along="tau", by="form", fits=data.fits, power=1.0, xlabel=r"step $\tau$")
        for place, line in enumerate(axis.lines[: len(FORMS)]):
            line.set(markerfacecolor="none", markersize=10 - 3 * (place % 2), linewidth=3.0 if place == 0 else 1.4)
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.set_ylim(10 ** np.floor(np.log10(axis.get_ylim()[0])))
        axis.set_ylabel(f"error at $t = {self.horizon:g}$")
        axis.legend(title="slope [95% band]", loc="upper left", alignment="left")

    @panel(
        "Minimizing movements on the flow",
        "A law in a double well, pushed by its own mean: after the shortest steps the two transport forms lie on the "
        "flow (left), and every step has lowered the free energy (right).",
        columns=2,
        size=(9.6, 3.9),
        width_ratios=(1.4, 1),
    )
    def laws(self, axes, data):
        """Densities at the end, and energies along the steps."""
        left, right = axes
        law, steps = data.law.sel(form="entropic"), data.flow.sel(form="entropic")
        theta, end = law.labels("theta"), data.path.sel(form="quantile")[-1]
        left.plot(theta, steps[0], color=colour(6), label="start")
        left.plot(theta, steps[-1], color=INK, label="Fokker–Planck flow")
        left.plot(theta[::4], law[::4], "o", color=colour("FA"), label="entropic steps")
        density = 1 / (self.quantiles * np.diff(end))
        left.plot((end[1:] + end[:-1]) / 2, density, "x", color=colour("EA"), label="quantile steps")
        left.set(xlabel=r"$\theta$", ylabel="density", ylim=(0, None))
        left.legend(loc="upper left")
        right.plot(data.energies.sel(form="quantile"), ".-", color=colour("EA"))
        right.set(xlabel="quantile steps", ylabel="free energy $F$")


def _normal(n, mean, deviation):
    """The n middle quantiles of a normal law."""
    return mean + deviation * ndtri((np.arange(n) + 0.5) / n)


def _deviation_error(tau, n=200):
    """One quantile step from a normal law against the closed form: the relative error of the deviation."""
    spring = Pairwise(lambda theta: SPRING["stiffness"] * jnp.sum(theta**2) / 2, lambda a, b: 0.0 * a[0] * b[0])
    moved = proximal.quantile_step(spring, _normal(n, 0.0, 0.3), temperature=SPRING["temperature"], tau=tau)
    middle = slice(n // 10, -n // 10)
    normal = _normal(n, 0.0, 1.0)[middle]
    found = moved[middle] @ normal / (normal @ normal)
    return abs(found / proximal.gaussian_step(0.0, 0.3, tau=tau, **SPRING)[1] - 1)


def _root_mean_square(x):
    return float(np.sqrt(np.mean(x**2)))


def _scaled(x, energy, beta):
    """n times the free energy of n quantiles."""
    return len(x) * proximal.quantile_energy(energy, x, temperature=beta)


_slope, _bend = eqx.filter_jit(jax.grad(_scaled)), eqx.filter_jit(jax.hessian(_scaled))
_mirrored = eqx.filter_jit(proximal.mirror_step)
