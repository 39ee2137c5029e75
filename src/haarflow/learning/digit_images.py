"""Images of digits as arrays, in a size and turned as an experiment wants them."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.user_reps import image_rep
from haarflow.errors import Refusal
from haarflow.learning.readers import idx_images, load

TURNS = PlanarRotations(4)


def digit_images(folder: str = "") -> tuple[Float[np.ndarray, "n s s"], np.ndarray]:
    """Images with pixels in [0, 1] and their classes (n,): of scikit-learn, or of idx files in a folder."""
    if not folder:
        from sklearn.datasets import load_digits

        found: Any = load_digits()
        return found.images / 16.0, found.target
    images = idx_images(Path(folder))
    if images is None:
        raise Refusal(
            f"Images of digits are read from a folder with idx files such as train-images-idx3-ubyte.gz; got "
            f"{folder!r}, which has none. Name the folder, or name none for the digits of scikit-learn."
        )
    found = load(images)
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


def positions(images: Float[np.ndarray, "n s s"]) -> Float[np.ndarray, "4 n s s"]:
    """Every image in its four positions."""
    turned = image_rep(TURNS, *images.shape[1:]).action().apply(images.reshape(len(images), -1))
    return np.asarray(turned).reshape(4, *images.shape)


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
