"""Zero-sum games of two clouds: transport, reweighting or both, measured by the exact Nikaido–Isoda error."""

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.exploitability import nikaido_isoda
from haarflow.dynamics.flow import flow
from haarflow.dynamics.games import DescentAscent
from haarflow.dynamics.payoffs import QuadraticPayoff
from haarflow.dynamics.regions import Ball, Sphere
from haarflow.dynamics.schemes import Each, Euler, Extragradient, Heun
from haarflow.dynamics.time_averages import recorded, snapshot, time_average
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.samples import generator
from haarflow.runs.experiment import Experiment, above, below, named, once, over, panel, power_law, stream, tell
from haarflow.runs.sizes import Count, Horizon, Sizes, Step
from haarflow.runs.style import legend_above, log_axes, power_laws

DYNAMICS = {"both": (1.0, 1.0), "transport": (1.0, 0.0), "reweighting": (0.0, 1.0)}  # the speeds of each
PAYOFFS = ("ℓa", "ℓb", "bilinear")
TRIED = 100_000  # random responses that try to beat the exact error
EVERY = 0.32  # the time between two records
LOOKS = 12  # times at which errors are told, evenly spaced in their logarithm
FLOOR = 1e-16  # errors are drawn from here on: below is rounding


class ZeroSum(Experiment):
    """Two players on spheres, each a cloud of weighted strategies, come to the equilibrium of quadratic games when they
    move and reweight at once, where moving alone and reweighting alone stall; and the error of their time averages
    falls like 1/t. The error is exact: best responses are trust-region problems.

    Source: the measure-dynamics talk, its section on games; Domingo-Enrich, Jelassi, Mensch, Rotskoff and Bruna, A
    mean-field analysis of two-player zero-sum games (arXiv 2002.06277).

    The payoffs are ℓa = xᵀA0x + xᵀA1y + yᵀA2y + yᵀA3(x²) + a0ᵀx + a1ᵀy, ℓb the same with A0ᵀA0 and A2ᵀA2 and no A3, and
    xᵀA1y; all entries are N(0, 1), and the matrices are scaled by √(6/d) (their squares by √6/d) to keep their size in
    all dimensions. All dynamics take the extragradient step, which with growth is mirror-prox. That the last laws
    converge is no theorem, and in some games they do not: claims on them are about the median over games in six
    dimensions. In the bilinear game the last laws circle the equilibrium, and only averages come to it; their errors
    swing, each game at its own time, so that there the mean over games is fitted in place of the median.
    """

    group = "games"
    seconds = 60.0
    faults = {
        "both descend": "the second player descends the payoff too",
        "last law": "the last law stands in the place of the time average",
        "few responses": "best responses are the best of a hundred random points, not the exact ones",
    }

    dims: Sizes = (3, 6, 12)  # dimensions d of both players, whose strategies lie on spheres
    games: Count = 5  # games of each payoff
    particles: Count = 40  # strategies of each player
    horizon: Horizon = 200.0  # time of the flow
    dt: Step = 0.05  # time of one step

    @classmethod
    def full(cls):
        return cls(dims=(3, 6, 12, 24), games=10, particles=64, dt=0.02)

    def design(self):
        yield self.play, over(d=sorted(self.dims))
        yield self.exactness, once()
        yield self.unlike, once()

    def play(self, key, d):
        """Every game under every dynamics: errors of the laws over time, and of their averages where both act."""
        draw = generator(stream(key, "games", d))
        payoffs = [_drawn(draw, d, payoff) for payoff in PAYOFFS for _ in range(self.games)]
        starts = [[_on_sphere(draw, self.particles, d) for _ in payoffs] for _ in "xy"]
        clouds = {name: uniform(np.stack(rows)) for name, rows in zip("xy", starts, strict=True)}
        errors, averaged, times = [], [], np.zeros(0)
        for place, (transport, growth) in enumerate(DYNAMICS.values()):
            path = self._flow(key, [self._field(one, transport, growth) for one in payoffs], clouds)
            looks = np.round(np.geomspace(len(path.steps) / 32, len(path.steps) - 1, LOOKS)).astype(int)
            records, times = recorded(path), path.times[0, looks]
            for k in looks:
                laws = {name: Cloud(one.atoms[:, k], one.weights[:, k]) for name, one in records.items()}
                errors.append([_error(payoff, laws, run) for run, payoff in enumerate(payoffs)])
                if place == 0:
                    means = laws if self.fault == "last law" else time_average(path, until=float(path.times[0, k]))
                    averaged.append([_error(payoff, means, run) for run, payoff in enumerate(payoffs)])
            tell((place + 1) / len(DYNAMICS))
        shape, labels = (LOOKS, len(PAYOFFS), self.games), {"payoff": PAYOFFS, "time": times.round(9)}
        axes, ways = ("time", "payoff", "game"), tuple(DYNAMICS)
        return {
            "errors": named(np.reshape(errors, (-1, *shape)), "dynamics", *axes, dynamics=ways, **labels),
            "averaged": named(np.reshape(averaged, shape), *axes, **labels),
        }

    def _flow(self, key, fields, clouds):
        """One program for all dynamics; often recorded, for laws that turn quickly are averaged over their records."""
        steps = max(LOOKS * 32, round(self.horizon / self.dt))
        keys = jax.random.split(key, len(fields))
        options = {"every": max(1, round(EVERY / self.dt)), "probes": {"laws": snapshot}, "progress": False}
        return flow(fields, Extragradient(), clouds, key=keys, dt=self.dt, steps=steps, **options)

    def _field(self, payoff, transport, growth):
        ascend = () if self.fault == "both descend" else "y"
        return restrict(DescentAscent(payoff, ascend=ascend, transport=transport, growth=growth), Sphere())

    def exactness(self, key):
        """By how much the best of many random responses beats the exact error: in every game, less than rounding."""
        draw, found = generator(stream(key, "exactness")), []
        tried = _on_sphere(draw, TRIED, 6)
        for payoff in [_drawn(draw, 6, payoff) for payoff in PAYOFFS for _ in range(self.games)]:
            clouds = {name: uniform(_on_sphere(draw, self.particles, 6)) for name in "xy"}
            exact = nikaido_isoda(restrict(DescentAscent(payoff, ascend="y"), Sphere()), clouds)
            gap = _best(payoff, clouds, tried[:100]) if self.fault == "few responses" else exact.value
            found.append((_best(payoff, clouds, tried) - gap, exact.upper - exact.lower))
        beaten, width = np.transpose(found)
        return {"beaten": beaten.max(), "width": width.max()}

    def unlike(self, key):
        """Players in balls of three and of five dimensions, of different numbers, weights, speeds and schemes."""
        draw = generator(stream(key, "unlike"))
        payoff = QuadraticPayoff(
            xx=_bowl(draw, 3), xy=draw.normal(size=(3, 5)), yy=-_bowl(draw, 5), lx=draw.normal(size=3)
        )
        rates = {"transport": {"x": 1.0, "y": 0.5}, "growth": {"x": 2.0}}
        ascend = () if self.fault == "both descend" else "y"
        game = restrict(DescentAscent(payoff, ascend=ascend, **rates), {"x": Ball(1.0), "y": Ball(2.0)})
        clouds = {
            "x": Cloud(jnp.asarray(draw.normal(size=(40, 3))), jnp.asarray(draw.dirichlet(np.ones(40)))),
            "y": uniform(draw.normal(size=(24, 5))),
        }
        end = flow(game, Each({"x": Heun(), "y": Euler()}), clouds, key=key, dt=0.05, steps=2000, progress=False).cloud
        judge = restrict(DescentAscent(payoff, ascend="y"), {"x": Ball(1.0), "y": Ball(2.0)})
        return {"unlike": max(nikaido_isoda(judge, end).value, FLOOR)}

    def fits(self, data):
        found = {}
        for (payoff, d), errors in data.averaged.each("payoff", "d"):
            since, centre = errors.labels("time")[-1] / 16, "mean" if payoff == "bilinear" else "median"
            fit = power_law(errors, along="time", over="game", since=since, centre=centre)
            found[f"{payoff}, d = {d}, averaged error"] = fit
        return found

    def claims(self, data):
        for fit in data.fits.values():
            yield fit.between(-1.1, -0.9)
        six = 6 if 6 in self.dims else min(self.dims)
        last = data.errors.sel(d=six).isel(time=-1).median("game")
        for payoff in PAYOFFS[:2]:
            ends = last.sel(payoff=payoff)
            yield below(f"{payoff}, d = {six}: both together, median error", ends.sel(dynamics="both"), 1e-6)
            yield above(f"{payoff}, d = {six}: transport alone, median error", ends.sel(dynamics="transport"), 1e-3)
            yield above(f"{payoff}, d = {six}: reweighting alone, median error", ends.sel(dynamics="reweighting"), 1.0)
        yield below(f"the best of {TRIED} random responses, beyond the exact error", data.beaten, 1e-12)
        yield below("upper minus lower bound of the exact error", data.width, 1e-10)
        yield below("unlike players (size, dimension, weights, speed, scheme): error", data.unlike, 1e-6)

    def numbers(self, data):
        last = data.errors.isel(time=-1)
        reached = (last.sel(dynamics="both") < 1e-6).mean("game").each("payoff", "d")
        found = {f"share of games with both below 1e-6, {p}, d = {d}": float(share) for (p, d), share in reached}
        for (way, payoff, d), one in last.each("dynamics", "payoff", "d"):
            found[f"median error, {way}, {payoff}, d = {d}"] = float(one.median())
        return found

    @panel(
        "Both together, or each alone",
        "The exact Nikaido–Isoda error over time on spheres in six dimensions: medians over {games} games, with a band "
        "from 10 to 90%. Where payoffs bend, moving and reweighting together come to the equilibrium, and neither does "
        "alone. In the bilinear game all of them circle it.",
        columns=PAYOFFS,
        size=(9.6, 3.8),
        sharey=True,
    )
    def errors(self, axis, data, payoff):
        shown = data.errors.sel(d=6 if 6 in self.dims else min(self.dims), payoff=payoff)
        power_laws(axis, shown, along="time", by="dynamics", over="game", fits={})
        self._finish(axis, payoff, shown)
        if payoff == PAYOFFS[0]:
            legend_above(axis)

    @panel(
        "Time averages fall like 1/t",
        "The error of the laws averaged over time, moving and reweighting together: medians over {games} games. The "
        "legend gives the slopes, fitted from a sixteenth of the time on (of bilinear games, of the mean).",
        columns=PAYOFFS,
        size=(9.6, 3.8),
        sharey=True,
    )
    def averages(self, axis, data, payoff):
        shown = data.averaged.sel(payoff=payoff)
        fits = {str(d): data.fits[f"{payoff}, d = {d}, averaged error"] for d in shown.labels("d")}
        power_laws(axis, shown, along="time", by="d", over="game", fits=fits, power=-1)
        self._finish(axis, payoff, shown)
        axis.legend(title="d, slope [95% band]", loc="lower left", alignment="left", bbox_to_anchor=(0.0, -0.02))
        axis.set_ylim(1e-4)

    def _finish(self, axis, payoff, shown):
        times = shown.labels("time")
        log_axes(axis, [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500) if times[0] <= t <= times[-1]], "time", "")
        if payoff == PAYOFFS[0]:
            axis.set_ylabel("Nikaido–Isoda error")


def _drawn(draw, d, payoff):
    """A random payoff, with all parts so that all share a program."""
    A0, A1, A2, A3 = draw.normal(size=(4, d, d)) * np.sqrt(6 / d)
    a0, a1 = draw.normal(size=(2, d))
    if payoff == "ℓb":
        A0, A2, A3 = A0.T @ A0 / np.sqrt(6), A2.T @ A2 / np.sqrt(6), 0 * A3
    if payoff == "bilinear":
        A0, A2, A3, a0, a1 = 0 * A0, 0 * A2, 0 * A3, 0 * a0, 0 * a1
    return QuadraticPayoff(xx=A0, xy=A1, yy=A2, yx2=A3, lx=a0, ly=a1)


def _error(payoff, clouds, run):
    """The exact error of one run, in the zero-sum game whatever the players do."""
    game = restrict(DescentAscent(payoff, ascend="y"), Sphere())
    mine = {name: Cloud(cloud.atoms[run], cloud.weights[run]) for name, cloud in clouds.items()}
    return max(nikaido_isoda(game, mine).value, FLOOR)


def _bowl(draw, d):
    root = draw.normal(size=(d, d)) / np.sqrt(d)
    return root @ root.T + np.eye(d) / 2


def _on_sphere(draw, n, d):
    places = draw.normal(size=(n, d))
    return places / np.linalg.norm(places, axis=1, keepdims=True)


def _best(payoff, clouds, tried):
    """The gap that the best of some points of the sphere leave: max over y minus min over x."""
    ends = []
    for name in "xy":
        matrix, linear, constant = (np.asarray(part) for part in payoff.against(name, clouds))
        ends.append(np.sum((tried @ matrix) * tried, axis=1) + tried @ linear + constant)
    return ends[1].max() - ends[0].min()
