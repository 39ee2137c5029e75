"""What the machine itself can do: the rates of the product, the activation and the noise, each alone, in float32.

The floor of a wide step is their sum: the products forward and back, one tanh for each particle and input, one
normal for each parameter. For the published step, `native` is a kernel in C that does nothing else.
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import contestants
import numpy as np


def _repeat(operation, *arrays) -> contestants.Run:
    """Calls of one compiled operation, one after the other."""
    import jax

    compiled = jax.jit(operation)
    held = [jax.numpy.asarray(array) for array in arrays]

    def run(steps):
        for _ in range(steps):
            compiled(*held).block_until_ready()

    return run


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def forward(task: str, n: int) -> contestants.Run:
    """Particles × inputs: (n, 66) by (66, 64)."""
    return _repeat(lambda thetas, xs: thetas @ xs, _normal(n, 66), _normal(66, 64))


def backward(task: str, n: int) -> contestants.Run:
    """What comes back: (n, 64) by (64, 66)."""
    return _repeat(lambda local, xs: local @ xs, _normal(n, 64), _normal(64, 66))


def activation(task: str, n: int) -> contestants.Run:
    """One tanh for each particle and input."""
    import jax.numpy as jnp

    return _repeat(jnp.tanh, _normal(n, 64))


def noise(task: str, n: int) -> contestants.Run:
    """One normal for each parameter."""
    import jax

    from haarflow.fast.noise import gaussian

    words = jax.random.key_data(jax.random.key(0))
    return _repeat(lambda words: gaussian(jax.random.wrap_key_data(words), (n, 66)), words)


def native(task: str, n: int) -> contestants.Run:
    """The published step as one fused kernel on all cores; needs a C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "native.so"
        flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", built, Path(__file__).with_name("native.c"), "-lm"], check=True)
        step = ctypes.CDLL(str(built)).step
    z, kept = contestants.start(task, n).T.copy(), np.zeros((40, n), np.float32)
    xs, ys = 4 * _normal(20, 2), np.full((20, 2), 0.5, np.float32)
    numbers = [ctypes.c_float(x) for x in (contestants.DT, 2 * contestants.TAU, 1e-4)]

    def run(steps):
        at_z, at_xs, at_ys, at_kept = (ctypes.c_void_p(array.ctypes.data) for array in (z, xs, ys, kept))
        for key in range(steps):
            step(at_z, n, at_xs, at_ys, *numbers, key, at_kept)

    return run


RATES = {"forward": forward, "backward": backward, "activation": activation, "noise": noise, "native": native}


def fixed_bases() -> dict[str, float]:
    """Seconds to find the fixed space of some representations, the first time."""
    import time

    import haarflow as hf

    image = hf.image_rep(hf.PlanarRotations(4), 28, 28)
    vector, swaps = hf.natural_rep(hf.SpecialOrthogonal(3)), hf.natural_rep(hf.Symmetric(5))
    cases = {
        "28×28 images under quarter turns": image,
        "maps between 28×28 images and 10 labels": image.hom(hf.trivial_rep(hf.PlanarRotations(4), 10)),
        "5×5×5 tensors under permutations": swaps * swaps * swaps,
        "maps of 5×5 matrices under permutations": (swaps * swaps).hom(swaps * swaps),
        "tensors of order 5 under SO(3)": vector * vector * vector * vector * vector,
        "maps of R^64 under cyclic shifts": hf.natural_rep(hf.Cyclic(64)).hom(hf.natural_rep(hf.Cyclic(64))),
    }
    seconds = {}
    for name, rep in cases.items():
        begun = time.perf_counter()
        rep.fixed_basis()
        seconds[f"{name} ({rep.dim} numbers)"] = time.perf_counter() - begun
    return seconds
