"""GANs that keep a symmetry: `GAN(on_x=rep).fit(x, key=0).sample(1, 100)`.

The training is a flow of two players, so it has the flow's checkpoints, progress, probes and resumption to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from haarflow.algebra.base import Finite, Group
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, Least, Most, Natural, Positive, door
from haarflow.dynamics.adversarial import DISCRIMINATOR, GENERATOR, Adversarial, parameters, with_parameters
from haarflow.dynamics.flow import flow
from haarflow.dynamics.progress import Tell
from haarflow.dynamics.schemes import Optax
from haarflow.dynamics.turns import Turns
from haarflow.errors import Refusal
from haarflow.learning.objectives import LipschitzAlpha, Objective, Relativistic
from haarflow.measures.clouds import Cloud, stack_clouds
from haarflow.models.adversaries import Discriminator, Generator, VectorDiscriminator, VectorGenerator
from haarflow.models.image_adversaries import ImageDiscriminator, ImageGenerator
from haarflow.practice.fitted_gan import FittedGAN, Sheet
from haarflow.practice.gan_data import Side, classes_of, side_of

Size = Annotated[int, Least(1), Most(100_000)]
Symmetry = Literal["plain", "augmented", "generator", "discriminator", "unsymmetrised", "both"]
ROWS: tuple[Symmetry, ...] = ("plain", "augmented", "generator", "discriminator", "unsymmetrised", "both")
EQUIVARIANT, INVARIANT = ("generator", "unsymmetrised", "both"), ("discriminator", "unsymmetrised", "both")


class Defaults(NamedTuple):
    """What is taken for vectors or for images, where nothing is said."""

    objective: type[Objective]
    optimiser: str
    rates: tuple[float, float]
    turns: int
    widths: tuple[int, ...]
    latent: int


VECTORS = Defaults(LipschitzAlpha, "rmsprop", (2e-4, 2e-4), 5, (64, 32, 16), 10)
IMAGES = Defaults(Relativistic, "adam", (1e-4, 4e-4), 2, (32, 64), 64)


@door
@dataclass(frozen=True, kw_only=True)
class GAN:
    """A generator trained against a discriminator, both of which may know a symmetry of the data.

    `on_x` is how the group moves the data: a representation on vectors, or for images "rotations" (C4), "dihedral" (D4)
    or another group of quarter turns and flips. `symmetry` says who knows it:

    - "both": an equivariant generator with a symmetrised latent law, against an invariant discriminator;
    - "generator" or "discriminator": one of the two alone (the latter invites the collapse of modes);
    - "unsymmetrised": as "both", with layers that commute with the group and a latent law that is not invariant;
    - "augmented": nobody, but the true points are moved by random elements;
    - "plain": nobody.

    `widths` are those of plain networks. One that knows a group of |G| elements has the same, and so about |G| times
    fewer free parameters; with `same="parameters"` it has √|G| times wider layers, and so as many parameters in the
    layers that commute with the group, as where such networks are compared with plain ones.

    For vectors the defaults are the Lipschitz-regularised α-divergence, RMSprop at 2e-4, 5 steps of the discriminator
    for each of the generator and widths (64, 32, 16), in copies of the representation `hidden`; for images the
    relativistic objective, Adam at 1e-4 and 4e-4 for generator and discriminator, 2 steps and widths (32, 64), the
    channels at each size, the finest first. `generator` and `discriminator` may be networks of your own instead.
    """

    on_x: Rep | Group | str | None = None
    symmetry: Symmetry | None = None
    objective: Objective | None = None
    generator: Generator | None = None
    discriminator: Discriminator | None = None
    latent: Size | None = None
    widths: Sequence[Size] | None = None
    same: Literal["widths", "parameters"] = "widths"
    hidden: Rep | None = None
    batch: Size = 64
    turns: Size | None = None
    optimiser: Literal["rmsprop", "adam"] | None = None
    rates: tuple[Positive, Positive] | None = None
    precision: Literal["single", "double"] = "single"

    def __post_init__(self):
        if self.on_x is None and self.row != "plain":
            raise Refusal(
                f"A GAN with symmetry={self.symmetry!r} is told how a group moves the data; got no on_x. Write "
                "on_x=natural_rep(PlanarRotations(4)), for example, or 'rotations' for images."
            )

        if self.widths is not None and not len(self.widths):
            raise Refusal("A GAN's widths are those of its layers, one or more; got none. Write (64, 32), for example.")

    @property
    def row(self) -> Symmetry:
        """Who knows the symmetry."""
        return self.symmetry or ("plain" if self.on_x is None else "both")

    @door
    def fit(
        self,
        x: Float[np.ndarray, "m *shape"],
        y: Any = None,
        *,
        key: PRNGKeyArray,
        steps: Natural = 10_000,
        checkpoint: str | Path | None = None,
        progress: bool | Tell | None = None,
        every: Count | None = None,
        sheets: str | Path | None = None,
    ) -> FittedGAN:
        """Train on points (m, d) or images (m, h, w) or (m, h, w, channels), of classes `y` where there are some.

        A step is one of the generator, after `turns` of the discriminator. With `checkpoint`, a file from which a
        killed training resumes, to the bit. Every `every` steps, by default ten times in all, a sheet of samples is
        kept as `fitted.sheets`, and with `sheets` written into that folder as a picture.
        """
        if sheets is not None and not Path(sheets).is_dir():
            raise Refusal(f"fit's sheets is a folder that exists; got {str(sheets)!r}. Make the folder first.")
        side, (labels, classes) = side_of(self.on_x, x), classes_of(y, len(x))
        first, run, look = jax.random.split(key, 3)
        field = self.field(first, side, x, labels, len(classes))
        sheet = Sheet(field.generator, side, look, len(classes), None if sheets is None else str(sheets))
        options = {"every": every or max(1, steps // 10), "checkpoint": checkpoint, "progress": progress}
        path = flow(
            field, self.scheme(side), _players(field), key=run, dt=1.0, steps=steps, probes={"sheet": sheet}, **options
        )
        return FittedGAN(
            with_parameters(field.generator, path.cloud[GENERATOR]),
            with_parameters(field.discriminator, path.cloud[DISCRIMINATOR]),
            side,
            classes,
            np.asarray(path.steps),
            side.outside(path.probes["sheet"]),
            self.row,
        )

    def fit_together(
        self, xs: Sequence[np.ndarray], keys: Any, *, steps: int, progress: bool | Tell | None = None
    ) -> list[FittedGAN]:
        """A GAN for each of several samples of one shape, without classes, in one compiled program."""
        side = side_of(self.on_x, xs[0])
        first, run, look = (jax.vmap(jax.random.split, (0, None), 1)(keys, 3)[i] for i in range(3))
        fields = [self.field(key, side, x, None, 0) for key, x in zip(first, xs, strict=True)]
        players = [_players(field) for field in fields]
        clouds = {name: stack_clouds([one[name] for one in players]) for name in players[0]}
        path = flow(fields, self.scheme(side), clouds, key=run, dt=1.0, steps=steps, progress=progress)
        found = []
        for i, field in enumerate(fields):
            mine = {name: jax.tree.map(lambda leaf, i=i: leaf[i], cloud) for name, cloud in path.cloud.items()}
            sheet = Sheet(field.generator, side, look[i], 0, None)(mine)
            networks = (
                with_parameters(field.generator, mine[GENERATOR]),
                with_parameters(field.discriminator, mine[DISCRIMINATOR]),
            )
            found.append(FittedGAN(*networks, side, (), path.steps[-1:], side.outside(sheet)[None], self.row))
        return found

    def field(self, key: PRNGKeyArray, side: Side, x: np.ndarray, labels: Any, classes: int) -> Adversarial:
        """The field of the two players, with fresh networks."""
        dtype = jnp.float32 if self.precision == "single" else jnp.float64
        makes, tells = jax.random.split(key)
        makes_kept, tells_kept = self.row in EQUIVARIANT, self.row in INVARIANT
        known, options = _defaults(side), partial(self._options, side, classes, dtype)
        make, tell = (ImageGenerator, ImageDiscriminator) if side.images else (VectorGenerator, VectorDiscriminator)
        latent = {"latent": self.latent or known.latent, "symmetrised": self.row in ("generator", "both")}
        made = self.generator or make(makes, *side.nouns(makes_kept), **options(makes_kept), **latent)
        told = self.discriminator or tell(tells, *side.nouns(tells_kept), **options(tells_kept))
        side.refuse_unless_fitting(GENERATOR, made, classes)
        side.refuse_unless_fitting(DISCRIMINATOR, told, classes)
        rows, places = jnp.asarray(side.inside(x), dtype), None if labels is None else jnp.asarray(labels)
        moved = side.on_x if self.row == "augmented" else None
        return Adversarial(self.objective or known.objective(), made, told, rows, places, self.batch, moved)

    def scheme(self, side: Side) -> Turns:
        """How the two players step."""
        import optax

        known = _defaults(side)
        name, rates = self.optimiser or known.optimiser, self.rates or known.rates
        make = {"rmsprop": optax.rmsprop, "adam": lambda rate: optax.adam(rate, b1=0.0, b2=0.9)}[name]
        schemes = {DISCRIMINATOR: Optax(make(rates[1])), GENERATOR: Optax(make(rates[0]))}
        return Turns(schemes, times={DISCRIMINATOR: self.turns or known.turns})

    def _wide(self, side: Side, kept: bool) -> tuple[int, ...]:
        """The widths of a network, which knows the group where it is `kept`."""
        given, group = tuple(self.widths or _defaults(side).widths), side.on_x.group
        if self.same == "widths" or not kept:
            return given
        if not isinstance(group, Finite):
            raise Refusal(
                "A GAN with same='parameters' has layers wider by the root of the order of a finite group; got "
                f"{group}. Write same='widths'."
            )
        return tuple(group.order * max(1, round(width / group.order**0.5)) for width in given)

    def _options(self, side: Side, classes: int, dtype: Any, kept: bool) -> dict[str, Any]:
        """What both networks are made with; `kept` says whether this one knows the group."""
        found = {"widths": self._wide(side, kept), "classes": classes, "dtype": dtype}
        if self.hidden is None:
            return found
        if side.images:
            raise Refusal(
                "A GAN's hidden is for vectors; got one beside images, which have group convolutions. Drop it."
            )
        return found | {"one": self.hidden}


def _players(field: Adversarial) -> dict[str, Cloud]:
    return {GENERATOR: parameters(field.generator), DISCRIMINATOR: parameters(field.discriminator)}


def _defaults(side: Side) -> Defaults:
    return IMAGES if side.images else VECTORS
