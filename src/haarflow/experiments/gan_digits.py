"""Turned digits from few images: GANs that know the quarter turns, and GANs that do not."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from haarflow.measures.samples import generator
from haarflow.practice import digit_features
from haarflow.practice.fitted_gan import contact_sheet
from haarflow.practice.gans import GAN, ROWS
from haarflow.runs.experiment import Count, Experiment, Positive, above, below, blocks, named, over, panel, stream, tell
from haarflow.runs.style import MUTED, colour

MADE = 1000  # images that are scored
TRANSPORTED = 400  # of which W1 is computed
Rows = Literal[ROWS]
Share = Annotated[float, Field(gt=0, le=1)]


class GanDigits(Experiment):
    """From few turned digits, a GAN whose generator and discriminator know the quarter turns makes images whose
    features are nearer to those of true ones than a plain GAN with as many parameters does.

    Source: the symmetry-preserving-learning talk; Birrell, Katsoulakis, Rey-Bellet and Zhu, Structure-preserving GANs
    (arXiv 2202.01129), their rotated MNIST.

    The images are scikit-learn's 8 × 8 digits, or those of idx files (MNIST, Fashion-MNIST) in the folder `data`, each
    turned once and for all by a random quarter turn, exactly, or by any angle. A share of them is trained on, with
    classes: relativistic average objective with penalty 0.1, Adam(0, 0.9) with the discriminator's rate four times the
    generator's, two steps of the discriminator, batches of 64. The published rates are 1e-4 and 4e-4, for 20 000 steps;
    here both are four times as high, for a quarter of the steps in full mode and fewer in quick mode. Networks that
    know the turns are twice as wide as plain ones, so that the layers that share their parameters among four turns have
    as many of them, as in the published comparison. The feature distance is Fréchet's, between 1000 made images and
    held-out true ones, in the 32 features of a classifier that is trained here on the digits in all positions; so rows
    can be compared with each other, and with no published number. Its floor is that of true images against true images.
    W1 is that of the features in all four positions, under the group by the distance of orbits. Memorisation: the
    median distance of made images to the nearest training image in any position, over that of held-out images; near 0
    where images are copied.
    """

    group = "games"
    seconds = 260.0
    faults = {
        "fixed turns": "the latent law is never symmetrised, also in the rows that say so",
        "copies": "instead of made images, training images are scored",
    }

    data: str = ""  # a folder with idx files; empty: the digits of scikit-learn
    angles: Literal["quarter", "any"] = "quarter"  # by which every image is turned
    pixels: Count = 8  # of a side
    shares: Annotated[tuple[Share, ...], Field(min_length=1)] = (0.1, 0.5)  # of the images that are trained on
    rows: Annotated[tuple[Rows, ...], Field(min_length=2)] = ROWS  # pyright: ignore[reportInvalidTypeForm]
    steps: Count = 600  # of the generator
    runs: Count = 2  # starts
    width: Count = 16  # channels of plain networks at the finest size, twice as many at the next
    latent: Count = 32  # numbers z
    rate: Positive = 4e-4  # of Adam for the generator; four times that for the discriminator

    @classmethod
    def tour(cls):
        return cls(rows=("plain", "both"), shares=(0.1,), runs=1)

    @classmethod
    def full(cls):
        return cls(pixels=16, shares=(0.01, 0.1, 0.33, 1.0), steps=5000, runs=3, latent=64)

    def design(self):
        cells = over(share=self.shares, row=self.rows) * blocks("run", self.runs, size=1)
        yield self.train, cells
        yield self.floor, blocks("run", self.runs, size=1)

    def _digits(self, key):
        return digit_features.digits(
            self.data, self.pixels, self.angles, int(generator(stream(key, "data")).integers(2**31))
        )

    def train(self, key, share, row, run):
        """One start of one row on one share of the images, and its scores."""
        known = self._digits(key)
        count = max(10, round(share * len(known.train)))
        chosen = generator(stream(key, "share", run.start)).permutation(len(known.train))[:count]
        images, classes = known.train[chosen], known.classes[chosen]
        latent = "unsymmetrised" if self.fault == "fixed turns" and row in ("generator", "both") else row
        widths = (self.width, 2 * self.width)
        options = {"widths": widths, "same": "parameters", "latent": self.latent, "batch": min(64, count)}
        gan = GAN(on_x="rotations", symmetry=latent, rates=(self.rate, 4 * self.rate), **options)
        fitted = gan.fit(
            *_as_many(images, classes, len(known.train)),
            key=stream(key, "start", run.start),
            steps=self.steps,
            progress=tell,
        )
        made = fitted.sample(stream(key, "sample", run.start), MADE)
        if self.fault == "copies":
            made = images[np.arange(MADE) % count]
        found = self._scores(known, images, made)
        found["violation"] = max(fitted.violation(stream(key, "violation", run.start)).values())
        scores = {name: named(np.asarray([value]), "run") for name, value in found.items()}
        names = {"step": fitted.steps.tolist()}
        sheets = fitted.sheets[:, :20]
        return scores | {"sheet": named(sheets[None], "run", "step", "image", "y", "x", **names)}

    def floor(self, key, run):
        """The scores of true images that were held out, in the place of made ones."""
        known = self._digits(key)
        draw = generator(stream(key, "floor", run.start))
        scores = self._scores(known, known.train[:100], known.train[draw.permutation(len(known.train))[:MADE]])
        return {f"floor_{name}": named(np.asarray([scores[name]]), "run") for name in ("distance", "w1", "under")}

    def _scores(self, known, train, made):
        encoder, few = known.encoder, slice(0, TRANSPORTED)
        return {
            "distance": digit_features.frechet(encoder(made), encoder(known.test)),
            "w1": digit_features.w1_features(encoder, made[few], known.test[few], under=False),
            "under": digit_features.w1_features(encoder, made[few], known.test[few], under=True),
            "memory": np.median(digit_features.nearness(made, train))
            / np.median(digit_features.nearness(known.test, train)),
        }

    def claims(self, data):
        yield below("both: largest violation of the symmetry, relative", data.violation.sel(row="both").max(), 1e-10)
        least = min(self.shares)
        distance = data.distance.sel(share=least).median("run")
        ratio = distance.sel(row="plain") / distance.sel(row="both")
        bound = 2.0 if self.data and self.steps >= 4000 else 1.0
        yield above(f"share {least:g}: feature distance of plain over that of both, medians", ratio, bound)
        yield above("both: memorisation ratio, in the worst run", data.memory.sel(row="both").min(), 0.4)

    def numbers(self, data):
        found = {
            "feature distance, {share}, {row}": data.distance.median("run"),
            "W1, {share}, {row}": data.w1.median("run"),
            "W1 under the group, {share}, {row}": data.under.median("run"),
            "memorisation ratio, {share}, {row}": data.memory.median("run"),
        }
        mean = {row: float(np.log(data.distance.sel(row=row).values).mean()) for row in self.rows}
        ranks = {
            f"place of the row {row}": 1 + sorted(self.rows, key=lambda row: mean[row]).index(row) for row in self.rows
        }
        return found | ranks | {"floor of the feature distance": data.floor_distance.mean()}

    @panel(
        "Feature distance, W1 under the group, and memorisation",
        "Every start is a dot, at the share of images that was trained on. Dashed: true images against true images. "
        "A memorisation ratio near 1 says that made images are as far from the training images as unseen true ones.",
        columns=3,
        size=(12.0, 3.8),
    )
    def scores(self, axes, data):
        from matplotlib.ticker import LogLocator, StrMethodFormatter

        floors = {"distance": data.floor_distance, "under": data.floor_under}
        words = {"distance": "feature distance", "under": "W1 under the group", "memory": "memorisation ratio"}
        for axis, (name, label) in zip(axes, words.items(), strict=True):
            for i, row in enumerate(self.rows):
                values = getattr(data, name).sel(row=row).transpose("share", "run").values
                spread = 1.06 ** (i - len(self.rows) / 2)
                for share, dots in zip(self.shares, values, strict=True):
                    shown = row if share == self.shares[0] else None
                    axis.plot(np.full(len(dots), share * spread), dots, "o", color=colour(i), markersize=5, label=shown)
            if name in floors:
                axis.axhline(float(floors[name].mean()), color=MUTED, linestyle="--", linewidth=0.8)
            axis.set(xscale="log", xlabel="share of the images", ylabel=label)
            axis.set_xticks(self.shares, [f"{share:g}" for share in self.shares])
            axis.set_xlim(min(self.shares) / 1.6, max(self.shares) * 1.6)
            if name == "distance":
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
                axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.minorticks_off()
        axes[0].legend(fontsize=7)

    @panel(
        "What every row makes",
        "Twenty images of each row, two of each class: the first start, trained on the smallest share of the images.",
        columns="rows",
        size=(11.0, 3.4),
    )
    def sheet(self, axis, data, row):
        found = data.sheet.sel(share=min(self.shares), row=row).isel(run=0, step=-1)
        axis.imshow(contact_sheet(found.values, columns=5), cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()


def _as_many(images, classes, count):
    """The images over and over up to a count: the same law, and one compiled program for every share."""
    places = np.arange(count) % len(images)
    return images[places], classes[places]
