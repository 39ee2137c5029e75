"""What divergences under a group refuse, read as sentences."""

import numpy as np
import pytest

from haarflow.algebra.acting import ByMatrices
from haarflow.algebra.groups import PlanarRotations, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep
from haarflow.errors import Refusal
from haarflow.learning.symmetry import symmetrise
from haarflow.measures.discriminators import Features, KernelBall, Lipschitz
from haarflow.measures.distances import mmd_squared, sinkhorn, w1
from haarflow.measures.divergences import f_divergence, ipm, lip_alpha
from haarflow.measures.isometries import Isometries, Shifts

X, Y = np.random.default_rng(0).random((2, 6, 2))
TURNS = natural_rep(PlanarRotations(4))
SQUARED = natural_rep(SpecialOrthogonal(3)) ** 2


def mod_one(k):
    return lambda z: np.mod(z + k / 4, 1.0)


SENTENCES = {
    "shifts without the circle": (
        lambda: w1(X[:, :1], Y[:, :1], under=Isometries([mod_one(k) for k in range(4)])),
        ["isometries", "write `under=Shifts(4)`", "along the circle"],
    ),
    "a stretching action": (
        lambda: w1(X, Y, under=ByMatrices(np.array([np.eye(2), np.diag([2.0, 1.0])]))),
        ["isometries", "at place 1", "orthogonal elements"],
    ),
    "no group": (lambda: w1(X, Y, under=Isometries([lambda z: z, lambda z: z + 1])), ["all elements of a group"]),
    "wrong size": (lambda: w1(X, Y, under=natural_rep(Symmetric(3))), ["dimension 3", "R^2"]),
    "an action of the wrong size": (lambda: w1(X, Y, under=natural_rep(Symmetric(3)).action()), ["R^3", "R^2"]),
    "a group itself": (lambda: w1(X, Y, under=PlanarRotations(4)), ["w1's under"]),
    "the torus and a Gaussian kernel": (lambda: mmd_squared(X, Y, under=Shifts(4)), ["torus", "periodic kernel"]),
    "a kernel that is not invariant": (
        lambda: ipm(X, Y, within=KernelBall(lambda z, w: z[:, :1] * w[:, 0]), under=TURNS),
        ["invariant, k(g z, g z') = k(z, z')", "at place 1"],
    ),
    "a kernel that is not positive": (
        lambda: ipm(X, Y, within=KernelBall(lambda z, w: -z @ w.T)),
        ["positive definite"],
    ),
    "two kernels": (lambda: KernelBall(np.dot, width=1.0), ["got both"]),
    "features without rows": (lambda: ipm(X, Y, within=Features(lambda z: z[0])), ["(b, p) to rows (b, k)"]),
    "an infinite group": (lambda: w1(np.ones((2, 9)), np.ones((3, 9)), under=SQUARED), ["group.haar(key, 256)"]),
    "too many elements": (
        lambda: sinkhorn(np.ones((2, 12)), np.zeros((3, 12)), under=natural_rep(Symmetric(12))),
        ["100,000 elements", "group.draw(key, 256)"],
    ),
    "alpha one": (lambda: f_divergence(X, Y, f="alpha", alpha=1.0), ["other than one", "f='kl'"]),
    "a small alpha": (lambda: lip_alpha(X, Y, alpha=0.5), ["lip_alpha's alpha", "> 1"]),
    "an unknown f": (lambda: f_divergence(X, Y, f="hellinger"), ["kl, reverse kl, js, chi2, alpha"]),
    "two spaces": (lambda: ipm(X, Y[:, :1], within=Lipschitz()), ["p = 2", "Give both the same size"]),
    "an empty sample": (lambda: w1(X[:0], Y, under=TURNS), ["at least one"]),
    "nan": (lambda: w1(X * np.nan, Y, under=TURNS), ["finite"]),
    "no maps": (lambda: Isometries([]), ["the identity; got none"]),
    "a witness elsewhere": (lambda: lip_alpha(X, Y).witness(np.ones((2, 3))), ["points (b, 2)"]),
    "a function without outputs": (lambda: symmetrise(np.sin, TURNS), ["symmetrise(f, on_x, on_y)"]),
    "points with outputs": (lambda: symmetrise(X, TURNS, TURNS), ["symmetrise(points, on_x)"]),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_what_cannot_be_meant_is_refused_in_a_sentence(case):
    call, words = SENTENCES[case]
    with pytest.raises(Refusal) as refused:
        call()
    for word in words:
        assert word in str(refused.value)
