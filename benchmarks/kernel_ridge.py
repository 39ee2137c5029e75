"""Kernel ridge regression: our fit against scikit-learn's at the same equation, and its growth in time and memory.

`python kernel_ridge.py NAME N` fits once, in a process of its own, and prints seconds and peak memory as JSON.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).parent
D, RIDGE, GAMMA = 30, 1e-3, 1 / 30
COMPARED, LARGEST = 5000, 20_000


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in R^30, and one neuron of them."""
    xs = np.random.default_rng(0).normal(size=(n, D))
    return xs, np.maximum(xs[:, 0], 0)


def ours(xs: np.ndarray, ys: np.ndarray, method: str) -> np.ndarray:
    """The dual weights by `fit_kernel_ridge` with a Gaussian kernel."""
    import jax.numpy as jnp

    from haarflow.practice.kernel_regression import fit_kernel_ridge

    def gaussian(a, b):
        return jnp.exp(-GAMMA * (jnp.sum(a**2, 1)[:, None] + jnp.sum(b**2, 1)[None, :] - 2 * a @ b.T))

    return fit_kernel_ridge(xs, ys, ridge=RIDGE, kernel=gaussian, method=method).weights[:, 0]


def theirs(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """The dual weights by scikit-learn's KernelRidge."""
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(kernel="rbf", alpha=RIDGE, gamma=GAMMA).fit(xs, ys).dual_coef_


FITS = {
    "scikit-learn": theirs,
    "cholesky": lambda xs, ys: ours(xs, ys, "cholesky"),
    "conjugate gradients": lambda xs, ys: ours(xs, ys, "conjugate gradients"),
}


def once(name: str, n: int) -> dict:
    """One fit in a process of its own: seconds, peak memory in GB, and the first weights, to compare."""
    done = subprocess.run(
        [sys.executable, __file__, name, str(n)], cwd=HERE, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(rounds: int, largest: int = LARGEST) -> dict:
    """Ratios at n = 5000, in turns, and our seconds and memory up to n = 20 000."""
    turns = [{name: once(name, min(COMPARED, largest)) for name in FITS} for _ in range(rounds)]
    seconds = {name: median(turn[name]["seconds"] for turn in turns) for name in FITS}
    gap = max(
        np.abs(np.subtract(turn[name]["first"], turn["scikit-learn"]["first"])).max() for turn in turns for name in FITS
    )
    growth = [once("cholesky", n) for n in (5000, 10_000, 20_000) if n <= largest]
    return {
        "ratio": {name: seconds["scikit-learn"] / seconds[name] for name in FITS},
        "gap": float(gap),
        "growth": [{key: line[key] for key in ("n", "seconds", "peak_gb")} for line in growth],
    }


if __name__ == "__main__":
    name, n = sys.argv[1], int(sys.argv[2])
    FITS[name](*problem(200))  # imports, and programs of small size
    xs, ys = problem(n)
    start = time.perf_counter()
    weights = FITS[name](xs, ys)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"n": n, "seconds": seconds, "peak_gb": peak, "first": weights[:5].tolist()}))
