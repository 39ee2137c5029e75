"""A trained GAN: samples, sheets of samples along its training, how well it keeps its symmetry, and its file."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow import saving
from haarflow.algebra.tables import static
from haarflow.doors import Natural, door
from haarflow.dynamics.adversarial import GENERATOR, with_parameters
from haarflow.errors import Refusal
from haarflow.models.adversaries import Discriminator, Generator, moved_by
from haarflow.practice.gan_data import Side
from haarflow.values import numbers, refuse_unless_affordable, said

ROWS = 1024
"""How many points are drawn at once."""

SHOWN = 32
"""How many points are on a sheet."""


class FittedGAN(eqx.Module):
    """A trained generator, with the discriminator it was trained against.

    `sample(key, n)` draws from it; `sheets` (k, 32, ...) are samples of it at the steps `steps` of its training, from
    the same latent numbers; `violation(key)` measures how far both networks are from their symmetry; `save` writes a
    file that `FittedGAN.load` reads, in another program too. `draw(axis)` shows a sheet.
    """

    generator: Generator
    discriminator: Discriminator
    side: Side
    classes: tuple
    steps: Int[np.ndarray, " k"]
    sheets: Float[np.ndarray, "k n *shape"]
    symmetry: str = static()

    @door
    def sample(self, key: PRNGKeyArray, n: Natural, labels: Any = None) -> Float[np.ndarray, "n *shape"]:
        """n points in the shape of the data; where there are classes, of those in `labels`, or of random ones."""
        size = 8.0 * n * self.side.on_x.dim
        refuse_unless_affordable(f"A sample of {n} points", size, instead="Draw fewer at once.")
        pick, draw = jax.random.split(key)
        places = np.asarray(jax.random.randint(pick, (n,), 0, max(1, len(self.classes))))
        if labels is not None:
            places = self._places(labels, n)
        size, found = min(max(n, 1), ROWS), []
        for i, first in enumerate(range(0, n, size)):
            rows = np.resize(places[first : first + size], size)
            found.append(np.asarray(_drawn(self.generator, jax.random.fold_in(draw, i), rows)))
        whole = np.concatenate(found)[:n] if found else np.zeros((0, self.side.on_x.dim), np.float32)
        return self.side.outside(whole)

    def _places(self, labels: Any, n: int) -> np.ndarray:
        """The numbers of classes that a caller names, one for all or one for each point."""
        given = np.asarray(labels).ravel()
        known = {str(name): i for i, name in enumerate(self.classes)}
        strangers = [one for one in given.tolist() if str(one) not in known]
        if len(given) not in (1, n) or strangers:
            got = f"the class {strangers[0]!r}" if strangers else f"{len(given)} labels for {n} points"
            raise Refusal(
                f"sample's labels are classes that the GAN was fitted to, {', '.join(list(known)[:12]) or 'none'}, "
                f"one for all or one for each point; got {got}. Write one of these, or leave labels out."
            )
        return np.resize([known[str(one)] for one in given.tolist()], n)

    @door
    def score(self, x: Any, labels: Any = None) -> Float[np.ndarray, " n"]:
        """The discriminator's scores of points in the shape of the data, high where it takes them for true ones."""
        given = numbers("score's x", x, numpy=True)
        if given.ndim < 2 or int(np.prod(given.shape[1:])) != self.side.on_x.dim:
            raise Refusal(
                f"score takes points as the GAN was fitted to, {self.side.shape}; got the shape {given.shape}."
            )
        rows = jnp.asarray(self.side.inside(given), _dtype(self.generator))
        if self.classes and labels is None:
            raise Refusal("score takes the class of each point, where the GAN has classes; got none. Write labels=y.")
        return np.asarray(
            self.discriminator(rows, None if labels is None else jnp.asarray(self._places(labels, len(rows))))
        )

    @door
    def violation(self, key: PRNGKeyArray) -> dict[str, float]:
        """How far the networks are from the symmetry of the data, relative to their size, in float64: two numbers.

        "generator": the largest |finish(g u) − g finish(u)| over that of finish(u); "discriminator": the largest
        |score(g x) − score(x)| over the spread of the scores; over 16 random points and elements. A network that knows
        the symmetry has rounding errors only. Plain networks have no action on u; then u is not moved.
        """
        with jax.enable_x64(True):
            return _violation(key, _doubled(self.generator), _doubled(self.discriminator), self.side)

    def draw(self, axis: Any, *, at: int = -1) -> Any:
        """Draw one of the sheets, by default the last: images side by side, or points by two coordinates."""
        if not hasattr(axis, "imshow"):
            raise Refusal(f"draw takes an axis of matplotlib; got {said(axis)}. Write draw(plt.gca()).")
        if not -len(self.sheets) <= at < len(self.sheets):
            raise Refusal(f"draw shows one of {len(self.sheets)} sheets, from 0; got {at}. Write at=-1 for the last.")
        return drawn_sheet(axis, self.sheets[at], self.side)

    @door
    def save(self, path: str | Path) -> None:
        """Write the networks into one file, an .npz with a header; nothing in it is ever run."""
        saving.write(path, self)

    @classmethod
    @door
    def load(cls, path: str | Path) -> "FittedGAN":
        """What `save` wrote. Networks of your own must have been imported."""
        return saving.read(path, cls)


class Sheet(eqx.Module):
    """A probe of the training: points from the same latent numbers, as the generator makes them now.

    With a folder, it also writes them there as a picture, which JAX cannot compile: it is then called as plain Python.
    """

    generator: Generator
    side: Side
    key: Array
    classes: int = static()
    folder: str | None = static()

    def __call__(self, clouds):
        generator = with_parameters(self.generator, clouds[GENERATOR])
        if self.folder is None:
            return generator.draw(self.key, SHOWN, jnp.arange(SHOWN) % max(1, self.classes))
        found = _drawn(generator, self.key, np.arange(SHOWN) % max(1, self.classes))
        _write_sheet(Path(self.folder), np.asarray(found), self.side)
        return found


@eqx.filter_jit
def _drawn(generator: Generator, key: Array, labels: Any) -> Float[Array, "n d"]:
    return generator.draw(key, len(labels), labels)


def _write_sheet(folder: Path, rows: np.ndarray, side: Side) -> None:
    """The next picture in a folder: sheet-000.png and so on."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3) if side.images else (4, 4), layout="constrained")
    drawn_sheet(figure.subplots(), side.outside(rows), side)
    figure.savefig(folder / f"sheet-{len(list(folder.glob('sheet-*.png'))):03d}.png", dpi=100)


def drawn_sheet(axis: Any, points: np.ndarray, side: Side) -> Any:
    """Images side by side in rows of eight, or points in their first two coordinates."""
    if not side.images:
        second = points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
        axis.plot(points[:, 0], second, ".")
        return axis
    axis.imshow(contact_sheet(points, columns=8), cmap="gray", vmin=side.low, vmax=side.high)
    axis.set_axis_off()
    return axis


def contact_sheet(images: Float[np.ndarray, "n h w *c"], *, columns: int) -> Float[np.ndarray, "a b *c"]:
    """Images side by side, in rows of so many, as one picture."""
    images = images[..., 0] if images.ndim == 4 and images.shape[-1] == 1 else images
    rows = len(images) // columns
    table = images[: rows * columns].reshape(rows, columns, *images.shape[1:]).swapaxes(1, 2)
    return table.reshape(rows * images.shape[1], columns * images.shape[2], *images.shape[3:])


def _dtype(network: eqx.Module) -> Any:
    return jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))[0].dtype


def _doubled(network: Any) -> Any:
    """The same network with its parameters in float64."""
    return jax.tree.map(lambda leaf: leaf.astype(np.float64) if eqx.is_inexact_array(leaf) else leaf, network)


@eqx.filter_jit
def _violations(key: Array, generator: Generator, discriminator: Discriminator, side: Side) -> tuple[Array, Array]:
    """The two violations of networks in float64."""
    keys = jax.random.split(key, 3)
    moves, labels = side.on_x.group.draw(keys[0], 16), jnp.zeros(16, int)
    u = jax.random.normal(keys[1], (16, generator.on_u.dim), float)
    made = generator.finish(u)
    turned = moved_by(side.on_x, moves, made)
    other = generator.finish(moved_by(generator.on_u, moves, u) if _moves(generator, side) else u)
    x = jax.random.normal(keys[2], (16, side.on_x.dim), float)
    scores = discriminator(x, labels)
    away = discriminator(moved_by(side.on_x, moves, x), labels)
    off = jnp.abs(away - scores).max() / jnp.maximum(jnp.std(scores), 1e-300)
    return jnp.abs(turned - other).max() / jnp.maximum(jnp.abs(made).max(), 1e-300), off


def _moves(generator: Generator, side: Side) -> bool:
    """Whether the generator's own group is that of the data: a plain one knows the trivial group alone."""
    return generator.on_x.group == side.on_x.group


def _violation(key: Any, generator: Generator, discriminator: Discriminator, side: Side) -> dict[str, float]:
    found = _violations(key, generator, discriminator, side)
    return dict(zip(("generator", "discriminator"), map(float, found), strict=True))
