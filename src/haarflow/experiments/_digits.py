"""Turned digits for experiments with GANs: images and classes, an encoder that is trained here, and distances of
features."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import trivial_rep
from haarflow.algebra.user_reps import image_rep, regular_rep
from haarflow.errors import Refusal
from haarflow.learning.readers import load
from haarflow.measures.distances import w1

TURNS = PlanarRotations(4)
TEST = 1000  # images that are kept for tests
ENCODED = 4000  # images at most, on which the encoder is trained, each in its four positions


class Digits(NamedTuple):
    """Images (m, s, s) with pixels in [0, 1], each turned at random, and their classes; tests, and the encoder."""

    train: Float[np.ndarray, "m s s"]
    classes: Int[np.ndarray, " m"]
    test: Float[np.ndarray, "t s s"]
    encoder: "Encoder"


class Encoder(NamedTuple):
    """The layers of a classifier up to its last hidden one, whose outputs are the features."""

    layers: tuple

    def __call__(self, images: Float[np.ndarray, "n s s"]) -> Float[np.ndarray, "n k"]:
        rows = images.reshape(len(images), -1)
        for weights, offset in self.layers:
            rows = np.maximum(rows @ weights + offset, 0.0)
        return rows

    def orbits(self, images: Float[np.ndarray, "n s s"]) -> Float[np.ndarray, "4 n k"]:
        """The features of every image in its four positions, over two: the group permutes the positions."""
        return np.stack([self(one) for one in positions(images)]) / np.sqrt(TURNS.order)


def positions(images: Float[np.ndarray, "n s s"]) -> Float[np.ndarray, "4 n s s"]:
    """Every image in its four positions."""
    turned = image_rep(TURNS, *images.shape[1:]).action().apply(images.reshape(len(images), -1))
    return np.asarray(turned).reshape(4, *images.shape)


@lru_cache(2)
def digits(folder: str, pixels: int, angles: str, seed: int) -> Digits:
    """The digits of scikit-learn, or those of idx files in a folder, in pixels × pixels and turned at random."""
    draw = np.random.default_rng(seed)
    images, classes = _read(folder)
    images = resized(images, pixels)
    order = draw.permutation(len(images))
    images, classes = images[order], classes[order]
    tests = min(TEST, len(images) // 4)
    encoder = _trained(images[tests : tests + ENCODED], classes[tests : tests + ENCODED], seed)
    turned = turned_at_random(draw, images, angles)
    return Digits(turned[tests:], classes[tests:], turned[:tests], encoder)


def _read(folder: str) -> tuple[np.ndarray, np.ndarray]:
    if not folder:
        from sklearn.datasets import load_digits

        found: Any = load_digits()
        return found.images / 16.0, found.target
    paths = sorted(Path(folder).glob("train-images*idx3*")) or sorted(Path(folder).glob("*images*idx3*"))
    if not paths:
        raise Refusal(
            f"The setting data is a folder with idx files such as train-images-idx3-ubyte.gz; got {folder!r}, which "
            "has none. Name the folder, or leave data out for the digits of scikit-learn."
        )
    found = load(paths[0])
    size = round(np.sqrt(found.xs.shape[1]))
    return np.asarray(found.xs, float).reshape(-1, size, size), np.asarray(found.ys).ravel().astype(int)


def resized(images: Float[np.ndarray, "n s s"], pixels: int) -> Float[np.ndarray, "n p p"]:
    """Images in another size, smoothed before they are made smaller."""
    from scipy.ndimage import gaussian_filter, zoom

    scale = pixels / images.shape[1]
    if scale == 1:
        return images
    blur = max(0.0, 1 / scale - 1) / 2
    smooth = gaussian_filter(images, (0, blur, blur)) if blur else images
    made: Any = zoom(smooth, (1, scale, scale), order=1, mode="nearest", grid_mode=True)
    return np.clip(made, 0, 1)


def turned_at_random(draw: np.random.Generator, images: np.ndarray, angles: str) -> np.ndarray:
    """Every image turned by a random quarter turn, exactly; or by any angle, by cubic splines."""
    if angles == "quarter":
        places, found = draw.integers(4, size=len(images)), np.empty_like(images)
        for place in range(4):
            found[places == place] = positions(images[places == place])[place]
        return found
    from scipy.ndimage import rotate

    degrees = draw.uniform(0, 360, len(images))
    turned = [rotate(one, angle, reshape=False, order=3) for one, angle in zip(images, degrees, strict=True)]
    return np.clip(turned, 0, 1)


def _trained(images: np.ndarray, classes: np.ndarray, seed: int) -> Encoder:
    """A classifier of the digits in all positions, without its last layer."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    rows = positions(images).reshape(4 * len(images), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = MLPClassifier((64, 32), max_iter=15, random_state=seed).fit(rows, np.tile(classes, 4))
    return Encoder(tuple(zip(found.coefs_[:-1], found.intercepts_[:-1], strict=True)))


def frechet(a: Float[np.ndarray, "n k"], b: Float[np.ndarray, "m k"]) -> float:
    """The Fréchet distance of two samples: W2² between Gaussians with their means and covariances."""
    means, spreads = [x.mean(axis=0) for x in (a, b)], [np.cov(x.T) for x in (a, b)]
    values, vectors = np.linalg.eigh(spreads[0])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ spreads[1] @ root), 0)).sum()
    return float(np.sum((means[0] - means[1]) ** 2) + np.trace(spreads[0]) + np.trace(spreads[1]) - 2 * cross)


def w1_features(encoder: Encoder, made: np.ndarray, true: np.ndarray, *, under: bool) -> float:
    """W1 of the features in all positions; under the group, which permutes the positions, by the distance of orbits."""
    a, b = (encoder.orbits(images).transpose(1, 0, 2).reshape(len(images), -1) for images in (made, true))
    moved = regular_rep(TURNS) * trivial_rep(TURNS, a.shape[1] // TURNS.order)
    return w1(a, b, under=moved if under else None)


def nearness(images: np.ndarray, train: np.ndarray) -> Float[np.ndarray, " n"]:
    """The distance of every image to the nearest training image in any of its positions."""
    from scipy.spatial.distance import cdist

    rows = images.reshape(len(images), -1)
    return np.min([cdist(rows, one.reshape(len(train), -1)).min(axis=1) for one in positions(train)], axis=0)
