"""Implicit bias of linear equivariant networks: which classifier they converge to, and which they do not."""

import jax
import numpy as np

from haarflow.experiments._separable import (
    GROUPS,
    SLOWING,
    STEP,
    SYNTHETIC,
    USUAL,
    digits,
    falling,
    off,
    pairs,
    relative,
    sample,
    singular_ratio,
    train,
)
from haarflow.learning.margin_risks import LogExponential
from haarflow.measures.samples import generator
from haarflow.models.linear_networks import DeepLinear, Steerable
from haarflow.practice.max_margin import max_margin
from haarflow.runs.experiment import (
    Count,
    Experiment,
    above,
    below,
    holds,
    named,
    once,
    over,
    panel,
    stream,
)
from haarflow.runs.style import INK, MUTED, colour, failures, legend_above

DEPTHS = (2, 3)
KINDS = ("steerable", "augmented")
LABELS = {"steerable": "steerable, on the data", "augmented": "fully connected, on all positions"}
SVMS = ("augmented data", "fixed coordinates")
EQUAL, CLOSE = 1e-9, 1e-5
ANGLE = (2 * CLOSE) ** 0.5  # radians whose 1 − cos is CLOSE; layers that turn no more are of rank one to this share
WIDTH = 4


class Margin(Experiment):
    """A steerable linear network that is trained on separable data comes to the classifier of largest margin, without
    intercept, of the averaged data: it is the invariant classifier of largest margin, and where a fully connected
    network comes to on the augmented data.

    Source: the talk "Generalization and optimization in symmetry-preserving machine learning"; Chen and Zhu, On the
    implicit bias of linear equivariant steerable networks (arXiv 2303.04198).

    Networks of two and three layers in isometric coordinates descend the exponential loss by steps relative to their
    weights, c/(1 + k/τ), c = 0.05, τ = 100 (300 for the digits), momentum 0.9, which is gradient descent in another
    time. What does not hold is shown too: a fully connected network on the data as they are ends elsewhere, so does a
    steerable one in orbit-sum coordinates, where the margin is the largest in the length of the weights, and for an
    action that is not orthogonal the averaged and the augmented data have different classifiers. Digits 1 and 7 can be
    separated as they are, and not after averaging over quarter turns, where they could be written 7 and turned 7.
    """

    seconds = 45.0
    faults = {
        "orbit sums": "steerable networks are trained in orbit-sum coordinates",
        "lost turn": "the augmented data lack the last position of every input",
        "intercept": "the reference has an intercept",
    }

    samples: Count = 16  # rows of the synthetic data
    steps: Count = 20_000  # of every training

    @classmethod
    def full(cls):
        return cls(steps=100_000)

    def design(self):
        yield self.references, over(group=GROUPS)
        yield self.training, over(group=GROUPS, network=KINDS, depth=DEPTHS)
        yield self.plain, over(group=GROUPS)
        yield self.orbit_sums, over(group=SYNTHETIC)
        yield self.blocks, over(group=GROUPS)
        yield self.infeasible, once()

    def _reference(self, data):
        """The invariant classifier of largest margin."""
        if self.fault != "intercept":
            return max_margin(data.x, data.y, under=data.rep).direction
        from sklearn.svm import SVC

        found = SVC(kernel="linear", C=1e6).fit(data.averaged, data.y).coef_[0]
        return found / np.linalg.norm(found)

    def _augmented(self, data):
        return data.augmented(lost=self.fault == "lost turn")

    def references(self, key, group):
        """The same classifier found in three ways, and two others."""
        data = pairs(key, group, self.samples)
        best, basis = max_margin(data.averaged, data.y).direction, data.rep.fixed_basis()
        augmented = self._augmented(data)
        found = [max_margin(augmented.x, augmented.y).direction, basis @ max_margin(data.x @ basis, data.y).direction]
        skew = 10.0 ** generator(stream(key, "skew")).uniform(-1, 1, data.rep.dim)  # x -> skew x; the action follows
        turned = max_margin(augmented.x * skew, augmented.y).direction
        averaged = max_margin(data.averaged * skew, data.y).direction
        return {
            "equality": named([np.linalg.norm(one - best) for one in found], "svm", svm=SVMS),
            "free_cosine": max_margin(data.x, data.y).direction @ best,
            "skew_cosine": abs(turned @ averaged),
        }

    def _trained(self, key, group, network, data):
        options = {"schedule": falling(SLOWING.get(group, USUAL)), "scheme": relative(), "dt": STEP}
        return train(key, network, LogExponential(network, sample(data)), steps=self.steps, **options)

    def training(self, key, group, network, depth):
        """How far a network is from the invariant classifier of largest margin, during training."""
        data = pairs(key, group, self.samples)
        if network == "steerable":
            coordinates = "orbit sums" if self.fault == "orbit sums" else "isometric"
            model = Steerable(data.rep, channels=WIDTH, depth=depth, coordinates=coordinates)
        else:
            model, data = DeepLinear(data.rep.dim, width=WIDTH, depth=depth), self._augmented(data)
        path = self._trained(key, group, model, data)
        reference = self._reference(pairs(key, group, self.samples))
        return {
            "gap": named(off(path.probes["vector"], reference), "step", step=path.steps),
            "rank": singular_ratio(model, path.cloud.atoms[0]) if network == "augmented" else 0.0,
        }

    def plain(self, key, group):
        """A fully connected network on the data as they are."""
        data = pairs(key, group, self.samples)
        path = self._trained(key, group, DeepLinear(data.rep.dim, width=WIDTH), data)
        last = path.probes["vector"][-1]
        images = np.zeros((2, 8, 8))
        if group == "digits":
            images = np.stack([max_margin(data.x, data.y).direction, self._reference(data)]).reshape(2, 8, 8)
        return {
            "plain_gap": off(last, max_margin(data.x, data.y).direction),
            "plain_cosine": 1 - off(last, self._reference(data)),
            "shown": named(images, "classifier", "i", "j", classifier=("free", "invariant")),
        }

    def orbit_sums(self, key, group):
        """A steerable network with a weight for each orbit: the largest margin in the length of these weights."""
        data = pairs(key, group, self.samples)
        model = Steerable(data.rep, channels=WIDTH, coordinates="orbit sums")
        sums = (data.rep.fixed_basis() != 0).astype(float)  # the action permutes: an orbit is where its vector is
        other = sums @ max_margin(data.x @ sums, data.y).direction
        last = self._trained(key, group, model, data).probes["vector"][-1]
        right, wrong = off(last, other / np.linalg.norm(other)), off(last, self._reference(data))
        return {"orbit_right": right, "orbit_wrong": wrong}

    def blocks(self, key, group):
        """The share of the gradient outside the trivial block of every layer of a steerable network, at its start."""
        data = pairs(key, group, self.samples)
        model = Steerable(data.rep, channels=WIDTH, depth=3)
        risk, cloud = LogExponential(model, sample(data)), model.start(stream(key, "blocks"))
        first, inner, last = (
            np.asarray(part) for part in model.parts(jax.jit(lambda cloud: jax.grad(risk)(cloud).atoms[0])(cloud))
        )
        across = [first - np.asarray(data.rep.project(first)), inner - inner.mean(axis=2, keepdims=True)]
        size = np.sqrt(sum(np.sum(part**2) for part in (first, inner, last)))
        return {"across": max(np.linalg.norm(part) for part in across) / size}

    def infeasible(self, key):
        """Digits 1 and 7: apart as they are, and not when averaged over quarter turns."""
        data = digits(1, 7)
        lost = max_margin(data.x, data.y, under=data.rep)
        shares, rows = lost.certificate, data.y[:, None] * data.averaged
        proof = np.linalg.norm(shares @ rows) / np.linalg.norm(rows, axis=1).max()
        return {
            "free_margin": max_margin(data.x, data.y).margin,
            "averaged_margin": lost.margin,
            "proof": proof + abs(shares.sum() - 1) + max(0.0, -shares.min()),
        }

    def claims(self, data):
        for svm, gap in data.equality.each("svm"):
            yield below(f"the classifier of the averaged data is that of the {svm}, to {{bound}}", gap.max(), EQUAL)
        last = data.gap.isel(step=-1)
        for network, gap in last.each("network"):
            on = "augmented data" if network == "augmented" else "data as they are"
            name = "fully connected" if network == "augmented" else network
            for depth, one in gap.each("depth"):
                yield below(f"{name}, {depth} layers, on the {on}: 1 − cos at the end", one.max(), CLOSE)
        yield below("fully connected on the data: 1 − cos to its own largest margin", data.plain_gap.max(), CLOSE)
        yield below("fully connected on the data: cosine to the invariant classifier", data.plain_cosine.max(), 0.9)
        yield below("largest margin of the data: cosine to the invariant classifier", data.free_cosine.max(), 0.9)
        yield below("orbit sums: 1 − cos to the largest margin in the weights' length", data.orbit_right.max(), CLOSE)
        yield above("orbit sums: 1 − cos to the invariant classifier", data.orbit_wrong.min(), CLOSE)
        yield below("an action that is not orthogonal: cosine of averaged and augmented", data.skew_cosine.max(), 0.9)
        yield below("fully connected: second singular value over the first, any layer", data.rank.max(), ANGLE)
        yield below("steerable: share of the gradient outside the trivial blocks", data.across.max(), 1e-12)
        yield above("digits 1 and 7: margin as they are", data.free_margin, 0.1)
        yield holds("digits 1 and 7 averaged over quarter turns: told as not separable", data.averaged_margin == 0)
        yield below("and its certificate is a convex combination that vanishes, to {bound}", data.proof, 1e-10)

    def numbers(self, data):
        return {
            "1 − cos, {group}, {network}": data.gap.isel(step=-1).max("depth"),
            "cosine, not orthogonal, {group}": data.skew_cosine,
        }

    @panel(
        "Networks come to the invariant classifier of largest margin",
        "1 − cos of the angle to it during {steps} steps; full lines are networks of two layers, dashed of three.",
        columns=GROUPS,
        size=(10.8, 3.4),
        sharey=True,
    )
    def convergence(self, axis, data, group):
        for network, rows in data.gap.sel(group=group).each("network"):
            for depth, gap in rows.each("depth"):
                style, steps = "-" if depth == 2 else (0, (4, 2)), gap.labels("step")[1:]
                shown = {"label": LABELS[network]} if depth == 2 else {}
                paint = colour("FA" if network == "steerable" else "DA")
                axis.loglog(steps, np.asarray(gap)[1:], color=paint, linestyle=style, **shown)
        axis.axhline(CLOSE, color=INK, linewidth=0.8)
        axis.set(xlabel="step", ylabel="1 − cos" if group == GROUPS[0] else "", title=group)
        if group == GROUPS[0]:
            legend_above(axis)

    @panel(
        "Three ways to one classifier, and who ends elsewhere",
        "Left: the distance between the classifier of the averaged data and those of two other programs. Middle: the "
        "cosine to the invariant classifier of what converges elsewhere. Right: the digits 0 and 1, the classifier of "
        "largest margin and the invariant one.",
        mosaic="AAABBBC;AAABBBD",
        size=(10.8, 4.0),
    )
    def equalities(self, axes, data):
        series = {svm: [float(gap.sel(group=group)) for group in GROUPS] for svm, gap in data.equality.each("svm")}
        failures(axes["A"], GROUPS, series, EQUAL)
        axes["A"].legend(loc="center right")
        places = np.arange(len(GROUPS))
        bars = {"data as they are": data.plain_cosine, "action not orthogonal": data.skew_cosine}
        for order, (name, values) in enumerate(bars.items()):
            heights = [float(values.sel(group=group)) for group in GROUPS]
            axes["B"].bar(places + 0.36 * order - 0.18, heights, 0.34, color=colour(order), label=name)
        axes["B"].axhline(1, color=MUTED, linewidth=0.8)
        axes["B"].set(xticks=places, xticklabels=GROUPS, ylabel="cosine to the invariant classifier", ylim=(0, 1.35))
        axes["B"].legend(loc="upper left")
        for name, one in zip("CD", ("free", "invariant"), strict=True):
            image = np.asarray(data.shown.sel(group="digits", classifier=one))
            axes[name].imshow(image, cmap="RdBu", vmin=-np.abs(image).max(), vmax=np.abs(image).max())
            axes[name].set(xticks=[], yticks=[], title=one)
            axes[name].grid(False)
