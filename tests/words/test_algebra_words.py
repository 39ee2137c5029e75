"""The sentences with which the algebra refuses."""

import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.given import image, permutation, regular, represent
from haarflow.algebra.groups import (
    Cyclic,
    Dihedral,
    Hyperoctahedral,
    Rotations,
    Signs,
    SpecialOrthogonal,
    Symmetric,
)
from haarflow.algebra.products import Product, lift
from haarflow.algebra.reps import natural, one_group, trivial
from haarflow.errors import Refusal

turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])
SENTENCES = {
    "size": (
        lambda: Cyclic(0),
        "A size in a group or a representation is a whole number >= 1; got 0.",
    ),
    "not a size": (lambda: Symmetric(2.5), "a whole number >= 1; got 2.5."),
    "not orthogonal": (
        lambda: Matrices([[[1.0, 1.0], [0.0, 1.0]]]),
        "Matrices makes a group of orthogonal matrices; m^T m is off the identity by 1.0e+00. Write its",
    ),
    "not a number": (lambda: Matrices([[[np.nan]]]), "m^T m is off the identity by nan."),
    "not closing": (
        lambda: Matrices([turn], limit=500),
        "Matrices makes a finite group; these 1 matrices have not closed at 500 elements. Check for an angle",
    ),
    "not square": (
        lambda: Matrices([[[1.0, 0.0]]]),
        "stacked as (m, d, d); got an array of shape (1, 1, 2).",
    ),
    "ragged": (lambda: Matrices([np.eye(2), np.eye(3)]), "Matrices takes square matrices of one size; got"),
    "not a permutation": (
        lambda: Permutations([(1, 1, 0)]),
        "Permutations takes tuples that hold each of 0 … n−1 once; got (1, 1, 0). Write for instance",
    ),
    "no permutation": (lambda: Permutations([]), "Permutations takes one permutation at least; got none."),
    "too many": (
        lambda: Symmetric(20).elements(),
        "The list of elements of Symmetric(20) would hold 1e18 × 20 × 20 numbers; at most 6.7e+07 are",
    ),
    "stranger": (
        lambda: regular(Cyclic(3))(np.diag([1.0, -1.0, 1.0])),
        "Cyclic(3) acts through its own elements; got a matrix that is none of them",
    ),
    "infinite product": (
        lambda: Product(Cyclic(2), SpecialOrthogonal(2)),
        "Product is of two finite groups; got Cyclic(2) and SpecialOrthogonal(2). Write `product(a, b)`.",
    ),
    "grid": (
        lambda: SpecialOrthogonal(3).grid(5),
        "A grid of equispaced rotations is for the plane; got SpecialOrthogonal(3). Draw `haar",
    ),
    "two groups": (
        lambda: natural(Cyclic(2)) + natural(Cyclic(3)),
        "A sum takes representations of one group; got Cyclic(2) and Cyclic(3). Write both over the same group, or",
    ),
    "two groups in a product": (
        lambda: natural(Cyclic(2)) * natural(Cyclic(3)),
        "A product takes representations of one group; got Cyclic(2) and Cyclic(3). Write both",
    ),
    "two groups in hom": (
        lambda: natural(Cyclic(2)).hom(natural(Cyclic(3))),
        "takes representations of one group; got Cyclic(3) and Cyclic(2). Write both",
    ),
    "a group for a representation": (
        lambda: natural(Cyclic(2)) + Cyclic(2),
        "A sum takes a representation of a group; got the group Cyclic(2). Write for instance `natural(group)`",
    ),
    "no representation": (lambda: natural(Cyclic(2)).hom(3), "hom takes a representation of a group; got a int."),
    "three groups": (
        lambda: one_group("average", natural(Cyclic(2)), trivial(Cyclic(2)), natural(Signs(2))),
        "average takes representations of one group; got Cyclic(2) and Signs(2).",
    ),
    "lift": (
        lambda: lift(natural(Cyclic(2)), Cyclic(3) * Cyclic(2), 0),
        "lift takes a representation of factor 0 or 1 of a direct product; got one of Cyclic(2) for",
    ),
    "infinite matrices": (
        lambda: natural(SpecialOrthogonal(2)).matrices(),
        "The list of matrices is for finite groups; got SpecialOrthogonal(2). Draw `group.haar(key, n)`",
    ),
    "infinite regular": (lambda: regular(SpecialOrthogonal(2)), "The regular representation is for finite"),
    "large projector": (
        lambda: (natural(Symmetric(200)) ** 2).fixed_projector(),
        "would hold 40000 × 40000 numbers; at most 6.7e+07 are listed.",
    ),
    "not permuting": (lambda: natural(Dihedral(3)).orbits(), "natural(Dihedral(3)) does more than permute"),
    "signs": (
        lambda: natural(Hyperoctahedral(1)).permutation(-np.eye(1)),
        "natural(Hyperoctahedral(1)) does not permute the coordinates here.",
    ),
    "broken products": (
        lambda: represent(Cyclic(3), elements=np.array([[[1.0]], [[-1.0]], [[1.0]]])),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on Cyclic(3) it is off by 2.0e+00. Check",
    ),
    "broken generators": (
        lambda: represent(Cyclic(3), generators=[[[-1.0]]]),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on Cyclic(3)",
    ),
    "broken function": (
        lambda: represent(SpecialOrthogonal(3), lambda g: jnp.swapaxes(g, 0, 1), dim=3),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on SpecialOrthogonal(3) it is off by",
    ),
    "skewed function": (
        lambda: represent(Cyclic(2), lambda g: jnp.array([[1.0, 1.0], [0.0, 1.0]]) @ g, dim=2),
        "A representation is by orthogonal matrices; got rho(g)^T rho(g) off the identity by 1.0e+00. Change",
    ),
    "function of the wrong size": (
        lambda: represent(Cyclic(2), lambda g: g, dim=3),
        "A representation on R^3 gives matrices 3 × 3; got {(2, 2)}.",
    ),
    "function without size": (lambda: represent(Cyclic(2), lambda g: g), "Write `represent(g, f, dim=k)`."),
    "two ways at once": (lambda: represent(Cyclic(2)), "represent takes one of a function of g, `elements=`"),
    "wrong table": (
        lambda: represent(Cyclic(2), elements=np.ones((3, 1, 1))),
        "by its elements takes an array of shape (2, 1, 1) here; got (3, 1, 1). List",
    ),
    "broken images": (
        lambda: permutation(Cyclic(3), generators=[(1, 0)]),
        "A representation keeps products",
    ),
    "bad images": (
        lambda: permutation(Cyclic(2), generators=[(0, 0)]),
        "A permutation holds each of 0 … k−1",
    ),
    "ragged images": (
        lambda: permutation(Cyclic(2), elements=[(0,), (0, 1)]),
        "takes an array of numbers; got",
    ),
    "no images": (lambda: permutation(Cyclic(2)), "permutation takes one of points, `elements=` or"),
    "points": (
        lambda: permutation(Dihedral(4), np.array([[1.0, 0.0], [0.0, 1.0]])),
        "A set of points is permuted when Dihedral(4) maps it to itself; some image is not a point of it.",
    ),
    "repeated points": (
        lambda: permutation(Dihedral(1), np.zeros((2, 2))),
        "Points are different rows (k, 2) for Dihedral(1); got shape (2, 2), or a repeat.",
    ),
    "oblong": (
        lambda: image(Rotations(4), 2, 3),
        "Quarter turns move square images; got 2 × 3 under Rotations(4). Crop or pad the image.",
    ),
    "sixths": (
        lambda: image(Rotations(6), 4, 4),
        "An image is moved pixel by pixel by quarter turns and flips; got Rotations(6). Write",
    ),
    "copies": (lambda: 0 * natural(Cyclic(2)), "a whole number >= 1; got 0."),
    "empty space": (lambda: trivial(Cyclic(2), -1), "a whole number >= 1; got -1."),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_refusals_say_the_rule_what_was_got_and_what_to_write(name):
    make, sentence = SENTENCES[name]
    with pytest.raises(Refusal) as refusal:
        make()
    assert sentence in str(refusal.value)
