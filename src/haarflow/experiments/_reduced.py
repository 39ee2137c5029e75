"""The pictures of the reduced equations."""

from typing import Any

import numpy as np

from haarflow.runs.experiment import Panel


def over_dimensions(experiment: Any, data: Any) -> Panel:
    """Risk against samples per dimension, and samples and neurons against d."""

    def draw(figure):
        from haarflow.runs.style import DASHED, INK, MUTED, colour, marker, reference, slopes

        left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
        times, limits = data["limit/times"], dict(zip(data["limit/dims"].tolist(), data["limit/risks"], strict=True))
        shown = times <= experiment.horizon
        for order, d in enumerate(experiment.dims):
            risks, at = data[f"sgd d={d}/risk"][-1], data[f"sgd d={d}/times"]
            left.plot(times[shown] / experiment.rate, limits[d][shown], color=colour("", order), linewidth=1.3)
            style = {"color": colour("", order), "marker": marker("", order), "linestyle": "none"}
            left.plot(at / experiment.rate, np.median(risks, axis=0), label=f"d = {d}", **style)
        left.axhline(0.1 * limits[experiment.dims[0]][0], color=MUTED, linestyle=DASHED, linewidth=1.0)
        left.set(yscale="log", xlabel="samples per dimension, n / d", ylabel="risk")
        left.plot([], [], color=INK, linewidth=1.3, label="reduced equation")
        left.legend(title=f"SGD, {experiment.neurons[-1]} neurons", loc="upper right", alignment="left")
        samples = experiment.samples(data)
        series = {"samples": samples, "neurons": experiment.enough(data)}
        slopes(right, experiment.dims, series, xlabel="dimension d", centre="mean")
        reference(right, experiment.dims, 1.0, float(np.median(samples[:, 0]) / 2))
        right.set(ylabel="needed to learn")
        right.legend(title="slope in d", loc="center right", bbox_to_anchor=(1.0, 0.4), alignment="left")

    caption = (
        "One ReLU neuron in R^d, learnt by one-pass SGD with a sample a step. Left: median risk over "
        f"{experiment.runs} runs (marks) on the reduced equation in (a, s, r) (lines); in samples per dimension the "
        "curves of all d nearly coincide. Right: samples until the risk is 10% of its start (dashed line on the left) "
        "grow like d; the number of neurons with which every run gets there does not."
    )
    return Panel("One neuron: samples like d, neurons like 1", caption, draw, size=(10.2, 4.2))


def particles(experiment: Any, data: Any) -> Panel:
    """The risk of a wide network and of the reduced flow, and particles in the plane (s, r)."""

    def draw(figure):
        from haarflow.runs.style import INK, MUTED, colour

        axes = figure.subplots(1, 4, width_ratios=(1.5, 1, 1, 1))
        row = data["limit/risks"][list(data["limit/dims"]).index(experiment.d)]
        shown = data["limit/times"] <= experiment.horizon
        axes[0].plot(data["limit/times"][shown], row[shown], color=INK, label="reduced equation")
        axes[0].plot(
            data["full/times"], data["full/risk"], "o", color=colour("vanilla"), label=f"width {experiment.width}"
        )
        axes[0].set(yscale="log", xlabel="time t", ylabel="risk")
        axes[0].legend(loc="upper right")
        for axis, law, t in zip(axes[1:], data["full/law"], (0.0, 0.2, 1.0), strict=True):
            for sign, name, paint in ((1, "a > 0", "EA"), (-1, "a < 0", "vanilla")):
                some = law[np.sign(law[:, 0]) == sign][::3]
                axis.scatter(some[:, 1], some[:, 2], s=4, color=colour(paint), label=name, linewidth=0, alpha=0.6)
            axis.plot(1, 0, "*", color=INK, markersize=11, clip_on=False, label="teacher")
            axis.set(title=f"t = {t * experiment.horizon:g}", xlabel="s", xlim=(-1.6, 2.2), ylim=(0, 1.7))
            axis.axvline(0, color=MUTED, linewidth=0.6)
        axes[1].set(ylabel="r")
        axes[3].legend(loc="upper left", fontsize=7.5, handletextpad=0.2)

    caption = (
        f"A network of width {experiment.width} in R^{experiment.d} has its risk on the reduced equation (left). "
        "Right: its neurons, each as s, along the teacher, and r, the norm of the rest. Those that help turn towards "
        "the teacher, the others fade or turn away."
    )
    return Panel("A wide network moves in three numbers", caption, draw, size=(11.0, 3.6))


def mass(experiment: Any, data: Any) -> Panel:
    """The density on the grid with its characteristics, and its mass with and without the printed term."""

    def draw(figure):
        from haarflow.runs.style import DASHED, INK, colour

        axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
        steps = data["grid/characteristics"].shape[0] - 1
        extent = (-1.5, 2.0, 0.0, 2.0)
        for axis, density, step in zip(axes, data["grid/densities"], (0, steps // 4, steps), strict=False):
            axis.imshow(density.T, origin="lower", extent=extent, cmap="Blues", aspect="auto", interpolation="bilinear")
            places = data["grid/characteristics"][step]
            axis.scatter(*places.T, s=3 + 300 * data["grid/weights"], facecolor="none", edgecolor=colour("EA"))
            axis.set(title=f"t = {2 * step / steps:g}", xlabel="s", xlim=extent[:2], ylim=extent[2:])
            axis.grid(visible=False)
        axes[0].set(ylabel="r")
        plain, printed = data["grid/curve"]
        times = np.linspace(0, 2, len(plain))
        axes[3].plot(times, plain, color=INK, label=r"$\partial_r(\rho\,\partial_r\Psi)$")
        axes[3].plot(
            times,
            printed,
            color=colour("EA"),
            linestyle=DASHED,
            label=r"$\frac{1}{r}\partial_r(r\rho\,\partial_r\Psi)$",
        )
        axes[3].set(xlabel="time t", ylabel="mass", ylim=(0.95, 1.07))
        axes[3].legend(loc="upper left")

    caption = (
        "The law of (s, r) in R^10 with outputs kept at one: its density by finite volumes (blue) and the "
        "characteristics of the same equation (circles, by weight). The plain equation conserves mass to rounding; the "
        "one printed with a geometric factor does not."
    )
    return Panel("The reduced law is pushed forward", caption, draw, size=(11.0, 3.4))


def gaussians(experiment: Any, data: Any) -> Panel:
    """Optimal risks against delta, and SGD on the reduced flow."""

    def draw(figure):
        from haarflow.experiments.reduced import PUBLISHED, SCANNED
        from haarflow.runs.style import DASHED, INK, MUTED, colour, marker

        left, right = figure.subplots(1, 2)
        left.plot(SCANNED, data["optima/single"][:, 0], color=colour("EA"), marker="s", label="best single norm")
        left.plot(SCANNED, data["optima/law"][:, 0], color=colour("vanilla"), marker="o", label="best law of norms")
        left.plot(*zip(*PUBLISHED.items(), strict=True), "x", color=INK, markersize=8, label="published")
        at = float(data["optima/threshold"])
        left.axvline(at, color=MUTED, linestyle=DASHED, linewidth=1.0)
        left.annotate(f"Δ = {at:.3f}", (at, 0.5), xytext=(5, 0), textcoords="offset points", color=MUTED, fontsize=8.5)
        left.set(xlabel="Δ", ylabel="least risk", ylim=(-0.02, None))
        left.legend(loc="upper right")
        for order, delta in enumerate(experiment.deltas):
            paint = colour("", order)
            right.plot(data["gaussians/times"], data["gaussians/reduced"][order], color=paint)
            right.plot(
                data["gaussians/times"],
                data["gaussians/sgd"][order],
                color=paint,
                marker=marker("", order),
                linestyle="none",
                label=f"Δ = {delta:g}",
            )
            right.axhline(data["gaussians/best"][order], color=paint, linestyle=DASHED, linewidth=1.0)
        right.set(yscale="log", xlabel="time t", ylabel="risk")
        right.plot([], [], color=INK, label="reduced flow")
        right.plot([], [], color=INK, linestyle=DASHED, linewidth=1.0, label="least risk")
        right.legend(title="SGD", loc="upper right", alignment="left")

    caption = (
        "Telling N(0, (1 + Δ)² I) from N(0, (1 − Δ)² I). Left, high dimension: up to the threshold neurons of one norm "
        "are optimal, beyond it only a spread law is, and it makes no error. Right: SGD of "
        f"{experiment.gaussian_width} neurons in R^{experiment.gaussian_d}, on top of the flow in one number."
    )
    return Panel("Two Gaussians, one number", caption, draw, size=(10.2, 4.2))
