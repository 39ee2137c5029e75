"""How far ReLU students of n units are from their limit: never farther than fresh draws from it."""

import jax
import numpy as np

from haarflow.dynamics import fluctuations
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning import sphere
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, named, once, panel, tell
from haarflow.runs.sizes import Count, Horizon, Positive, Sizes, Step

LANES = ("interpolating", "regularised")
LESSON, LIMIT, STUDENTS = 1, 2, 1000  # random streams: the teacher, the Sobol points, students by their width
SQUARE = r"$n\;\mathrm{E}\,|f_n(t) - f(t)|^2$"


class CltRelu(Experiment):
    """ReLU students that learn, with a penalty and without, deviate from their limit by less than n fresh draws from it
    would at the same time: n E|f_n − f|² lies under the Monte-Carlo level at every time of training.

    Source: A dynamical central limit theorem for shallow neural networks (arXiv 2008.09623), its experiment.

    ReLU units (a, w) in d = 16, data uniform on the sphere with the exact kernel, students a ~ N(0, 1) and w uniform
    on the sphere, 20 runs of each width; with and without a penalty, here .01 ∫½|θ|² dmu.
    Teacher of two units. The limit is not the average of the runs: its law sees w along the two directions of the
    teacher and the length of the rest only, so that few Sobol points with the rest integrated stand for infinitely many
    particles; a quarter of the squared distance of two scrambles says how well it is known. The Monte-Carlo level is
    `∫|phi|² dmu_t − |f|²`, at time t; the fluctuation is allowed four standard errors above it.

    Features that move need not remember their draw, even with a penalty: the optimal function is unique and made of few
    units, which n particles reach, so that the regularised deviation vanishes as well. That interpolating students
    deviate less than regularised ones is therefore not claimed, and is not seen: they deviate twice as much at t = 40,
    and a hundred times as much at t = 480 (n = 32), where the penalty has contracted what is left. Equations for the
    deviation itself are those of `clt`.
    """

    group = "dynamics"
    seconds = 11.0
    faults = {"loud start": "the students' outputs start three times as large as the limit's"}

    d: Count = 16  # inputs of the students
    widths: Sizes = (32, 96)  # numbers n of students
    pairs: Count = 128  # Sobol points of the students' limit, each with both signs of the output
    runs: Count = 20  # runs of the students, for each n
    penalty: Positive = 0.01  # weight of the penalty on regularised students
    dt: Step = 0.2
    horizon: Horizon = 40.0  # time of training students

    @classmethod
    def full(cls):
        return cls(widths=(64, 128, 256, 512), pairs=256, dt=0.1, horizon=100.0)

    def design(self):
        yield self.students, once()

    def students(self, key):
        """`n E|f_n − f|²` in both lanes, its Monte-Carlo level, and the squared error that the limit may have."""
        lesson = sphere.relu_teacher(generator(jax.random.fold_in(key, LESSON)), np.array([2.0, 2.0]), self.d)
        frame = np.linalg.qr(np.asarray(lesson.atoms[:, 1:]).T)[0]
        known = uniform(np.column_stack([lesson.atoms[:, 0], lesson.atoms[:, 1:] @ frame]))
        risk, draw = sphere.ReluLimit(known, self.d, nodes=5), generator(jax.random.fold_in(key, LIMIT))
        scrambles = np.stack([sphere.smooth_students(draw, self.pairs, self.d) for _ in range(2)])
        (times, limits), found = self._train(key, risk, scrambles), []
        pooled = np.concatenate([limits[:, 0], limits[:, 1]], axis=2)
        for place, n in enumerate(self.widths):
            draw = generator(jax.random.fold_in(key, STUDENTS + n))
            starts = sphere.relu_students(draw, self.runs, n, self.d)
            starts[..., 0] *= 3.0 if self.fault == "loud start" else 1.0
            lanes = zip(self._train(key, sphere.ReluRisk(lesson), starts)[1], pooled, strict=True)
            found.append([n * fluctuations.relu_deviations(risk, law, atoms, frame) for atoms, law in lanes])
            tell((place + 1) / len(self.widths))
        level, unknown = np.array([fluctuations.relu_levels(risk, *both) for both in limits]).swapaxes(0, 1)
        labels = {"lane": LANES, "time": times}
        return {
            "students": named(np.array(found), "n", "lane", "run", "time", n=self.widths, **labels),
            "students_level": named(level, "lane", "time", **labels),
            "unknown": named(unknown, "lane", "time", **labels),
        }

    def _train(self, key, risk, starts):
        """The times, and the particles (lanes, runs, times, n, p) from these starts."""
        fields = {"interpolating": Descend(risk), "regularised": Descend(risk + Penalty(self.penalty))}
        probes, steps = {"atoms": lambda cloud: cloud.atoms}, round(self.horizon / self.dt)
        options = {"dt": self.dt, "steps": steps, "probes": probes, "every": max(1, steps // 10)}
        paths = flow(fields, Euler(), uniform(starts), key=jax.random.split(key, len(starts)), **options)
        return paths[LANES[0]].times[0], np.stack([paths[lane].probes["atoms"] for lane in LANES])

    def claims(self, data):
        square, words = "n E|f_n − f|²", "less four standard errors"
        least, level = data.students.mean("run") - 4 * data.students.sem("run"), data.students_level
        for lane, over in (least / level).each("lane"):
            yield below(f"ReLU students, {lane}: {square} {words} over the Monte-Carlo level at t", over.max(), 1.0)
            known = f"ReLU students, {lane}: the limit is known to {{bound:.0%}} of the fluctuation at the largest n"
            yield below(known, self._unknown(data).sel(lane=lane), 0.1)

    def _unknown(self, data):
        """The largest share of the fluctuation, over times after the start, that the limit's own error may explain."""
        shares = self.widths[-1] * data.unknown / data.students.isel(n=-1).mean("run")
        return shares.isel(time=slice(1, None)).max("time")

    def numbers(self, data):
        found, ends = {}, data.students.isel(time=-1).mean("run")
        for lane, level in data.students_level.isel(time=-1).each("lane"):
            for n, end in ends.sel(lane=lane).each("n"):
                found[f"students, {lane}, n = {n}: fluctuation at the end"] = end
            found[f"students, {lane}: Monte-Carlo level at the end"] = level
            found[f"students, {lane}: share that the limit's error may explain"] = self._unknown(data).sel(lane=lane)
        first, second = ends.isel(n=-1)
        return found | {"students: interpolating over regularised at the end, largest n": first / second}

    @panel(
        "Students deviate less than fresh draws would",
        "ReLU students of a teacher with two units, d = {d}, {runs} runs of each width, with two standard errors. The "
        "deviation starts at the Monte-Carlo level of its law and falls under it as the law learns; with features that "
        "move, also where it is regularised.",
        columns=LANES,
        size=(10.2, 3.9),
        sharey=True,
    )
    def fluctuations(self, axis, data, lane):
        times, level = data.students.labels("time"), data.students_level.sel(lane=lane)
        axis.plot(times, level, color=style.MUTED, linestyle=style.DASHED, label="Monte-Carlo level")
        style.curves(axis, times, {f"n = {n}": row for n, row in data.students.sel(lane=lane).each("n")}, band="se")
        axis.set(xlabel="time t", ylabel=SQUARE, yscale="log")
        axis.label_outer()
        if lane == LANES[-1]:
            axis.legend(loc="center right")
