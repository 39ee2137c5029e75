"""The steps as loops, for numba: what its users would write, with the activations kept for the way back."""

import math

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True, cache=True)
def published(z, xs, ys, averaged, dt, tau, noise):
    """One step of sigmoid(z x) on R², in place; z is (n, 2, 2), xs (b, 2), ys (2, b)."""
    n, b = len(z), len(xs)
    images = 2 if averaged else 1
    values = np.empty((n, images, 2, b), np.float32)
    total = np.zeros((images, 2, b))
    for i in prange(n):
        for g in range(images):
            for c in range(2):
                for k in range(b):
                    before = z[i, c, 0] * xs[k, g] + z[i, c, 1] * xs[k, 1 - g]
                    values[i, g, c, k] = 1 / (1 + math.exp(-before))
        total += values[i]
    error = np.empty((images, 2, b), np.float32)
    for c in range(2):
        for k in range(b):
            output = total[0, c, k] / n
            if averaged:
                output = (output + total[1, 1 - c, k] / n) / 2
            for g in range(images):
                error[g, c if g == 0 else 1 - c, k] = 2 / b * (output - ys[c, k]) / images
    for i in prange(n):
        for c in range(2):
            first, second = 0.0, 0.0
            for g in range(images):
                for k in range(b):
                    local = error[g, c, k] * values[i, g, c, k] * (1 - values[i, g, c, k])
                    first += local * xs[k, g]
                    second += local * xs[k, 1 - g]
            z[i, c, 0] += -dt * (first + 2 * tau * z[i, c, 0]) + noise * np.random.normal()  # noqa: NPY002
            z[i, c, 1] += -dt * (second + 2 * tau * z[i, c, 1]) + noise * np.random.normal()  # noqa: NPY002


@njit(parallel=True, fastmath=True, cache=True)
def wide(thetas, xs, ys, dt, tau, noise):
    """One step of a tanh(<w, x> + b), in place; thetas is (n, 1 + d + 1), xs (b, d), ys (b,)."""
    n, (b, d) = len(thetas), xs.shape
    hidden = np.empty((n, b), np.float32)
    total = np.zeros(b)
    for i in prange(n):
        for k in range(b):
            before = thetas[i, d + 1]
            for j in range(d):
                before += thetas[i, 1 + j] * xs[k, j]
            hidden[i, k] = math.tanh(before)
        total += thetas[i, 0] * hidden[i]
    error = ((total / n - ys) / b).astype(np.float32)
    for i in prange(n):
        slope = np.zeros(d + 2, np.float32)
        for k in range(b):
            slope[0] += error[k] * hidden[i, k]
            local = error[k] * thetas[i, 0] * (1 - hidden[i, k] ** 2)
            for j in range(d):
                slope[1 + j] += local * xs[k, j]
            slope[d + 1] += local
        for j in range(d + 2):
            thetas[i, j] += -dt * (slope[j] + 2 * tau * thetas[i, j]) + noise * np.random.normal()  # noqa: NPY002
