"""A GAN as two clouds: generators against discriminators on a ring of eight Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.flow import flow
from haarflow.dynamics.games import DescentAscent, ExpectedPayoff
from haarflow.dynamics.schemes import Extragradient
from haarflow.dynamics.time_averages import recorded, snapshot
from haarflow.measures.clouds import uniform
from haarflow.measures.samples import generator
from haarflow.runs.experiment import Experiment, above, at_least, below, film, named, over, panel, stream, tell
from haarflow.runs.sizes import Count, Horizon, Positive, Step
from haarflow.runs.style import INK, MUTED, colour, curves, legend_above

WAYS = ("both", "transport", "one pair")
MODES = 8
ANGLES = 2 * np.pi * np.arange(MODES) / MODES
CENTRES = 2.0 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
SHARES = np.array([1, 2, 3, 4, 1, 2, 3, 4]) / 20  # of the data in each mode
NEAR = 0.5  # a generator within this distance of a mode's centre makes that mode; neighbours are 1.5 apart
FRAMES = 40


class MixtureGan(Experiment):
    """A cloud of generators against a cloud of discriminators comes to make every mode of a ring of Gaussians, in the
    proportions of the data, when both move and are reweighted; one generator against one discriminator never does.

    Source: the measure-dynamics talk, its section on games; the ring of eight Gaussians of Metz, Poole, Pfau and
    Sohl-Dickstein, Unrolled generative adversarial networks (arXiv 1611.02163).

    A generator is a centre m, which makes N(m, σ² I) with the data's σ; a discriminator is a wave (ω, b), which scores
    exp(−|ω|²/2W²) cos(ω·x + b). The payoff is the score of the data minus that of the generators, in closed form; the
    discriminators climb it and the generators descend it, by extragradient. With transport alone the weights stay
    equal; with both they follow the payoff too. The discrepancy is the MMD with the kernel exp(−W²|x − y|²/2), also in
    closed form. A mode counts as covered if generators near it have half of its share of the data. A single pair
    chases around the ring from some starts, and from others comes to rest where its one wave no longer tells anything.
    """

    group = "games"
    tour_included = True
    seconds = 12.0
    faults = {
        "still discriminators": "the discriminators stay where they were drawn",
        "turned data": "modes are looked for half-way between those of the data",
    }

    generators: Count = 32  # generators of the mixture
    discriminators: Count = 64  # and discriminators
    runs: Count = 3  # starts
    width: Positive = 1.5  # W, how high the frequencies of discriminators go
    deviation: Positive = 0.2  # σ of each mode
    horizon: Horizon = 300.0  # time of the flow
    dt: Step = 0.1  # time of one step

    @classmethod
    def full(cls):
        return cls(generators=100, discriminators=200, runs=10, horizon=1000.0, dt=0.05)

    def design(self):
        yield self.train, over(way=WAYS)

    def train(self, key, way):
        """All starts of one way in one program: what generators make of each mode, and where they are."""
        n, m = (1, 1) if way == "one pair" else (self.generators, self.discriminators)
        draws = [generator(stream(key, "start", run)) for run in range(self.runs)]
        waves = [np.c_[self.width * draw.normal(size=(m, 2)), draw.uniform(-np.pi, np.pi, m)] for draw in draws]
        clouds = {"generators": uniform([0.3 * draw.normal(size=(n, 2)) for draw in draws]), "waves": uniform(waves)}
        speed = 0.0 if self.fault == "still discriminators" else 1.0
        growth = 1.0 if way == "both" else 0.0
        game = DescentAscent(
            ExpectedPayoff(self.payoff(), "generators", "waves"),
            ascend="waves",
            transport={"generators": 1.0, "waves": speed},
            growth={"generators": growth, "waves": growth * speed},
        )
        steps = max(FRAMES, round(self.horizon / self.dt))
        options = {"every": steps // FRAMES, "probes": {"laws": snapshot}, "progress": tell}
        keys = jax.random.split(key, self.runs)
        path = flow(game, Extragradient(), clouds, key=keys, dt=self.dt, steps=steps, **options)
        laws = recorded(path)["generators"]
        atoms, weights = np.asarray(laws.atoms), np.asarray(laws.weights)
        times, axes = path.times[0].round(9), ("run", "time")
        found = {
            "mass": named(self._masses(atoms, weights), *axes, "mode", time=times),
            "discrepancy": named(self._discrepancy(atoms, weights), *axes, time=times),
        }
        found["film"] = named(atoms[0], "time", "generator", "axis", generator=range(n))
        return found | {"shown": named(weights[0], "time", "generator", generator=range(n))}

    def payoff(self):
        """The score of the data minus that of a generator, of one wave."""
        centres, shares, width, deviation = jnp.asarray(CENTRES), jnp.asarray(SHARES), self.width, self.deviation

        def pair(point, wave):
            turn = wave[:2], wave[2]
            blur = jnp.exp(-(turn[0] @ turn[0]) * (1 / width**2 + deviation**2) / 2)
            data = shares @ jnp.cos(centres @ turn[0] + turn[1])
            return blur * (data - jnp.cos(point @ turn[0] + turn[1]))

        return pair

    def _masses(self, atoms, weights):
        """The weight of the generators near each mode."""
        turn = np.pi / MODES if self.fault == "turned data" else 0.0
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        near = np.linalg.norm(atoms[..., None, :] - CENTRES @ rotation, axis=-1) < NEAR
        return np.einsum("rtn,rtnm->rtm", weights, near)

    def _discrepancy(self, atoms, weights):
        """The MMD of the made law and the data, mixtures of Gaussians of one variance."""
        spread = 1 + 2 * self.deviation**2 * self.width**2

        def kernel(a, b):
            gaps = np.sum((a[..., :, None, :] - b[..., None, :, :]) ** 2, axis=-1)
            return np.exp(-(self.width**2) * gaps / (2 * spread)) / spread

        data = SHARES @ kernel(CENTRES, CENTRES) @ SHARES
        cross = np.einsum("rtn,rtnm,m->rt", weights, kernel(atoms, CENTRES), SHARES)
        own = np.einsum("rtn,rtnm,rtm->rt", weights, kernel(atoms, atoms), weights)
        return np.sqrt(np.maximum(own - 2 * cross + data, 0.0))

    def _covered(self, data):
        """How many modes are covered, over time."""
        return (data.mass >= SHARES / 2).sum("mode")

    def claims(self, data):
        last = self._covered(data).isel(time=-1)
        covered = last.sel(way="both").min()
        yield at_least("both: modes covered at the end, in the worst run", covered, MODES)
        off = abs(data.mass.isel(time=-1) - SHARES).sel(way="both").max()
        yield below("both: largest error of a mode's mass at the end", off, 0.05)
        fallen = data.discrepancy.isel(time=-1) / data.discrepancy.isel(time=0)
        yield below("both: discrepancy at the end over that at the start", fallen.sel(way="both").max(), 0.1)
        lonely = fallen.sel(way="one pair").min()
        yield above("one pair: discrepancy at the end over that at the start", lonely, 0.3)
        ends = data.discrepancy.isel(time=-1).median("run")
        worse = ends.sel(way="transport") / ends.sel(way="both")
        yield above("transport alone: discrepancy at the end over that of both, medians", worse, 5.0)

    def numbers(self, data):
        last = {f"modes covered at the end, {way}": float(one.mean()) for way, one in self._ends(data)}
        ends = data.discrepancy.isel(time=-1).each("way")
        return last | {f"discrepancy at the end, {way}": float(one.mean()) for way, one in ends}

    def _ends(self, data):
        return self._covered(data).isel(time=-1).each("way")

    @panel(
        "Modes covered, and how far the made law is from the data",
        "Means over {runs} starts with their range. A cloud of {generators} generators makes all eight modes; a single "
        "pair makes one at most. With weights that follow the payoff the discrepancy goes on falling.",
        columns=2,
        size=(9.6, 3.8),
    )
    def coverage(self, axes, data):
        left, right = axes
        times, covered = data.discrepancy.labels("time"), self._covered(data)
        curves(left, times, {way: one.transpose("run", "time") for way, one in covered.each("way")}, band="range")
        left.set(xlabel="time", ylabel="modes covered", ylim=(0, MODES + 0.3))
        shown = {way: one.transpose("run", "time") for way, one in data.discrepancy.each("way")}
        curves(right, times, shown, band="range")
        right.set(xlabel="time", ylabel="discrepancy (MMD)", yscale="log")
        legend_above(left)

    @film(
        "Generators on the ring",
        "The first start. Circles are the modes, larger where the data have more. Left: {generators} generators that "
        "move and are reweighted (those with a tenth of the mean weight or more). Right: one generator against one "
        "discriminator, with its way so far.",
        frames=FRAMES,
        size=(9.6, 4.8),
    )
    def ring(self, figure, data):
        left, right = figure.subplots(1, 2)
        for axis, title in ((left, "two clouds"), (right, "one pair")):
            for centre, share in zip(CENTRES, SHARES, strict=True):
                axis.plot(*centre, "o", markersize=14 + 90 * share, markerfacecolor="none", color=MUTED)
            axis.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title=title)
        dots = left.plot([], [], ".", color=colour("FA"), markersize=9)[0]
        trail = right.plot([], [], "-", color=colour("EA"), linewidth=0.8, alpha=0.6)[0]
        point = right.plot([], [], "o", color=INK, markersize=6)[0]
        clock = figure.suptitle("", fontsize=9, x=0.99, ha="right")
        cloud, weights = data.film.sel(way="both").values, data.shown.sel(way="both").values
        lone, times = data.film.sel(way="one pair", generator=0).values, data.mass.labels("time")

        def show(frame: int) -> None:
            held = weights[frame + 1] >= 0.1 / self.generators
            dots.set_data(*np.where(held[:, None], cloud[frame + 1], np.nan).T)
            trail.set_data(*lone[: frame + 2].T)
            point.set_data(*lone[frame + 1][:, None])
            clock.set_text(f"time {times[frame + 1]:,.0f}")

        return show
