"""Features of turned digits by an encoder that is trained here, and distances between features: how GANs are scored."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.reps import trivial_rep
from haarflow.algebra.user_reps import regular_rep
from haarflow.learning.digit_images import TURNS, digit_images, positions, resized, turned_at_random
from haarflow.measures.distances import w1

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


@lru_cache(2)
def digits(folder: str, pixels: int, angles: str, seed: int) -> Digits:
    """The digits of scikit-learn, or those of idx files in a folder, in pixels × pixels and turned at random."""
    draw = np.random.default_rng(seed)
    images, classes = digit_images(folder)
    images = resized(images, pixels)
    order = draw.permutation(len(images))
    images, classes = images[order], classes[order]
    tests = min(TEST, len(images) // 4)
    encoder = _trained(images[tests : tests + ENCODED], classes[tests : tests + ENCODED], seed)
    turned = turned_at_random(draw, images, angles)
    return Digits(turned[tests:], classes[tests:], turned[:tests], encoder)


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
