"""The sentences with which the algebra refuses."""

import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra import chains
from haarflow.algebra.characters import character_dimension
from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, PlanarRotations, Signs, Symmetric, Trivial
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.products import Product, direct_product, lift
from haarflow.algebra.reps import natural_rep, one_group, trivial_rep
from haarflow.algebra.user_reps import image_rep, permutation_rep, point_set, regular_rep, represent
from haarflow.errors import Refusal

turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])


def _wrong_once(g):
    """The sign of a permutation, wrong at the one that turns all five around."""
    wrong = np.array_equal(np.asarray(g), np.eye(5)[::-1])
    return np.array([[-1.0 if wrong else np.linalg.det(np.asarray(g))]])


def _askew(group):
    """The natural representation in another basis: no signed permutations."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((group.dim, group.dim)))[0]
    return represent(group, lambda g: basis @ g @ basis.T, dim=group.dim)


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
    "not a number": (lambda: Matrices([[[np.nan]]]), "generators holds finite numbers; got nan at [0, 0, 0]."),
    "not closing": (
        lambda: Matrices([turn], limit=500),
        "Matrices makes a finite group; these 1 matrices have not closed at 500 elements. Check for an angle",
    ),
    "not square": (
        lambda: Matrices([[[1.0, 0.0]]]),
        "stacked as (m, d, d); got an array of shape (1, 1, 2).",
    ),
    "ragged": (
        lambda: Matrices([np.eye(2), np.eye(3)]),
        "generators is an array of numbers; got rows of different lengths.",
    ),
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
        lambda: regular_rep(Cyclic(3))(np.diag([1.0, -1.0, 1.0])),
        "Cyclic(3) acts through its own elements; got a matrix that is none of them",
    ),
    "infinite product": (
        lambda: Product(Cyclic(2), SpecialOrthogonal(2)),
        "Product is of two finite groups; got Cyclic(2) and SpecialOrthogonal(2). Write `direct_product(a, b)`.",
    ),
    "grid": (
        lambda: SpecialOrthogonal(3).grid(5),
        "A grid of equispaced rotations is for the plane; got SpecialOrthogonal(3). Draw `haar",
    ),
    "two groups": (
        lambda: natural_rep(Cyclic(2)) + natural_rep(Cyclic(3)),
        "A sum takes representations of one group; got Cyclic(2) and Cyclic(3). Write both over the same group, or",
    ),
    "two groups in a product": (
        lambda: natural_rep(Cyclic(2)) * natural_rep(Cyclic(3)),
        "A product takes representations of one group; got Cyclic(2) and Cyclic(3). Write both",
    ),
    "two groups in hom": (
        lambda: natural_rep(Cyclic(2)).hom(natural_rep(Cyclic(3))),
        "hom takes representations of one group; got Cyclic(2) and Cyclic(3). Write both",
    ),
    "a group for a representation": (
        lambda: natural_rep(Cyclic(2)) + Cyclic(2),
        "A sum takes a representation of a group; got the group Cyclic(2). Write for instance `natural_rep(group)`",
    ),
    "no representation": (
        lambda: natural_rep(Cyclic(2)).hom(3),
        "hom takes a representation of a group; got 3. Write for instance",
    ),
    "three groups": (
        lambda: one_group("average", natural_rep(Cyclic(2)), trivial_rep(Cyclic(2)), natural_rep(Signs(2))),
        "average takes representations of one group; got Cyclic(2) and Signs(2).",
    ),
    "lift": (
        lambda: lift(natural_rep(Cyclic(2)), Cyclic(3) * Cyclic(2), 0),
        "lift takes a representation of factor 0 or 1 of a direct product; got one of Cyclic(2) for",
    ),
    "infinite matrices": (
        lambda: natural_rep(SpecialOrthogonal(2)).matrices(),
        "The list of matrices is for finite groups; got SpecialOrthogonal(2). Draw `group.haar(key, n)`",
    ),
    "infinite regular": (lambda: regular_rep(SpecialOrthogonal(2)), "The regular representation is for finite"),
    "large projector": (
        lambda: (natural_rep(Symmetric(200)) ** 2).fixed_projector(),
        "would hold 40000 × 40000 numbers; at most 6.7e+07 are listed.",
    ),
    "an orbit without end": (
        lambda: point_set(Symmetric(1000), 3).action(),
        "The orbit of a vector in R^3000 under all elements of Symmetric(1000) would hold 1e2567 × 3000 numbers; at "
        "most 6.7e+07 are listed. Write `elements=group.draw(key, 64)` to average over 64 draws, or `augment(data,",
    ),
    "elements of another group": (
        lambda: natural_rep(Cyclic(4)).action(Symmetric(4).draw(0, 9)),
        "Cyclic(4) acts through its own elements, on R^4; got `elements` on R^4 that are others. Write",
    ),
    "elements of another space": (
        lambda: natural_rep(Cyclic(4)).action(Cyclic(3).draw(0, 9)),
        "Cyclic(4) acts through its own elements, on R^4; got `elements` on R^3 that are others. Write",
    ),
    "rows of another width for an Action": (
        lambda: natural_rep(Cyclic(3)).action().apply(np.ones(2)),
        "An Action on R^3 moves rows of 3 numbers; got an array of shape (2,). Write z with 3 numbers in its",
    ),
    "rows and elements": (
        lambda: natural_rep(Cyclic(3)).action().apply_each(np.ones((2, 3))),
        "apply_each moves row i by element i of 3; got an array of shape (2, 3). Write 3 rows, or `apply` to",
    ),
    "no place": (
        lambda: natural_rep(Cyclic(3)).action().pick(3),
        "pick takes a place among 3 elements, from 0, or a list of places; got 3. Write pick(0), or pick([0, 1]).",
    ),
    "a product of different sizes": (
        lambda: natural_rep(Cyclic(3)).action() @ natural_rep(Cyclic(3)).action().pick(0),
        "A product of Actions is of 3 elements on R^3 each; got 1 on R^3. Write `pick` to take as many of both.",
    ),
    "no image": (
        lambda: image_rep("spins", 4, 4),
        "An image_rep's group is one of dihedral, rotations, flips, mirror, translations, or a group of the plane; got",
    ),
    "signs of points": (
        lambda: point_set(Signs(3), 2),
        "A set of points is moved by a group that permutes them; got Signs(3). Write `Symmetric(m)` for all",
    ),
    "draws as matrices": (
        lambda: Symmetric(5000).haar(0, 10**6),
        "Draw fewer at once, or write `group.draw(key, n)`, which keeps permutations as such.",
    ),
    "not permuting": (lambda: natural_rep(Dihedral(3)).orbits(), "natural_rep(Dihedral(3)) does more than permute"),
    "signs": (
        lambda: natural_rep(Hyperoctahedral(1)).permutation(-np.eye(1)),
        "natural_rep(Hyperoctahedral(1)) does not permute the coordinates here.",
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
        "A representation on R^3 gives matrices 3 × 3; got the shape (2, 2). Write the size of rho(g) as `dim=`.",
    ),
    "function without size": (lambda: represent(Cyclic(2), lambda g: g), "Write `represent(g, f, dim=k)`."),
    "two ways at once": (lambda: represent(Cyclic(2)), "represent takes one of a function of g, `elements=`"),
    "wrong table": (
        lambda: represent(Cyclic(2), elements=np.ones((3, 1, 1))),
        "by its elements takes an array of shape (2, 1, 1) here; got (3, 1, 1). List",
    ),
    "broken images": (
        lambda: permutation_rep(Cyclic(3), generators=[(1, 0)]),
        "A representation keeps products",
    ),
    "bad images": (
        lambda: permutation_rep(Cyclic(2), generators=[(0, 0)]),
        "A permutation holds each of 0 … k−1",
    ),
    "ragged images": (
        lambda: permutation_rep(Cyclic(2), elements=[(0,), (0, 1)]),
        "table is an array of numbers; got rows of different lengths.",
    ),
    "no images": (lambda: permutation_rep(Cyclic(2)), "permutation_rep takes one of points, `elements=` or"),
    "points": (
        lambda: permutation_rep(Dihedral(4), np.array([[1.0, 0.0], [0.0, 1.0]])),
        "A set of points is permuted when Dihedral(4) maps it to itself; got points with an image that is none of",
    ),
    "repeated points": (
        lambda: permutation_rep(Dihedral(1), np.zeros((2, 2))),
        "Points are different rows (k, 2) for Dihedral(1); got shape (2, 2), or a repeat.",
    ),
    "oblong": (
        lambda: image_rep(PlanarRotations(4), 2, 3),
        "Quarter turns move square images; got 2 × 3 under PlanarRotations(4). Crop or pad the image.",
    ),
    "sixths": (
        lambda: image_rep(PlanarRotations(6), 4, 4),
        "An image is moved pixel by pixel by quarter turns and flips; got PlanarRotations(6). Write",
    ),
    "a function that fails on one element": (
        lambda: represent(Symmetric(5), _wrong_once, dim=1),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on Symmetric(5) it is off by 2.0e+00. Check",
    ),
    "a table that moves the identity": (
        lambda: represent(Trivial(2), elements=[[[-1.0]]]),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on Trivial(2) it is off by 2.0e+00.",
    ),
    "images that move the identity": (
        lambda: permutation_rep(Trivial(1), elements=[(1, 0)]),
        "A representation keeps products, rho(gh) = rho(g) rho(h); on Trivial(1) it is off by 1.0e+00.",
    ),
    "no function": (lambda: represent(Cyclic(2), "x", dim=1), "represent's function is a function; got 'x'. Write"),
    "words for a function": (
        lambda: represent(Cyclic(2), lambda g: "x", dim=1),
        "A representation's rho(g) is an array of real numbers; got 'x'.",
    ),
    "two sizes": (
        lambda: represent(Cyclic(2), elements=np.ones((2, 1, 1)), dim=3),
        "represent reads the size of rho(g) from the matrices; got dim=3 beside an array of shape (2, 1, 1)",
    ),
    "a factor that is a number": (
        lambda: direct_product(Cyclic(2), 3),
        "direct_product's b is a Group; got 3. Write for instance",
    ),
    "factors that are words": (
        lambda: direct_product("a", "b"),
        "direct_product's a is a Group; got 'a'. Write for instance",
    ),
    "a number times a group": (lambda: 3 * Cyclic(2), "direct_product's a is a Group; got 3."),
    "a word for a group": (
        lambda: natural_rep("x"),
        "natural_rep's group is a Group; got 'x'. Write for instance `Cyclic(4)`",
    ),
    "another word for a group": (lambda: trivial_rep("x"), "trivial_rep's group is a Group; got 'x'."),
    "a representation for a group": (
        lambda: natural_rep(natural_rep(Cyclic(2))),
        "natural_rep's group is a Group; got a Natural.",
    ),
    "a class for a group": (
        lambda: regular_rep(Cyclic),
        "regular_rep's group is a Group; got the class Cyclic itself.",
    ),
    "lift of a word": (lambda: lift("x", Cyclic(2) * Cyclic(3), 0), "lift's rep is a Rep; got 'x'."),
    "lift to a side": (
        lambda: lift(natural_rep(Cyclic(2)), Cyclic(2) * Cyclic(3), "a"),
        "lift's side is a whole number",
    ),
    "lift to a third side": (
        lambda: lift(natural_rep(Cyclic(2)), Cyclic(2) * Cyclic(2), 2),
        "lift takes a representation of factor 0 or 1 of a direct product; got one of Cyclic(2) for factor 2 of",
    ),
    "no group of permutations": (lambda: Permutations(None), "generators is an array of real numbers; got None."),
    "words for permutations": (lambda: Permutations("ab"), "generators is an array of real numbers; got 'ab'."),
    "parts of points": (lambda: Permutations([(0.5, 1.5)]), "hold each of 0 … n−1 once; got (0.5, 1.5). Write for"),
    "one permutation alone": (lambda: Permutations((1, 0)), "hold each of 0 … n−1 once; got (1, 0). Write for"),
    "words for matrices": (lambda: Matrices("x"), "generators is an array of real numbers; got 'x'."),
    "complex matrices": (lambda: Matrices([np.eye(2) * 1j]), "generators is an array of real numbers; got a list"),
    "no end of matrices": (
        lambda: Matrices([turn], limit=10**18),
        "Matrices lists 1000000 elements at most (minutes); got limit=1000000000000000000. Write",
    ),
    "no element": (
        lambda: natural_rep(Cyclic(2))(np.ones((2, 2))),
        "Cyclic(2) acts through its own elements; got a matrix that is none of them. Take one from",
    ),
    "no element of JAX": (
        lambda: natural_rep(Cyclic(2))(jnp.ones((2, 2))),
        "Cyclic(2) acts through its own elements; got a matrix that is none of them.",
    ),
    "an element of another size": (
        lambda: natural_rep(Cyclic(2)).apply(np.eye(3), np.ones(2)),
        "An element of Cyclic(2) is one matrix 2 × 2; got an array of shape (3, 3). Take it from",
    ),
    "rows of another width": (
        lambda: trivial_rep(Cyclic(2), 3).apply(np.eye(2), np.ones((5, 4))),
        "trivial_rep(Cyclic(2), 3) moves rows of 3 numbers; got an array of shape (5, 4). Write z with 3",
    ),
    "projected rows of another width": (
        lambda: natural_rep(Cyclic(2)).project(np.ones(4)),
        "natural_rep(Cyclic(2)) moves rows of 2 numbers; got an array of shape (4,).",
    ),
    "outside of the Lie algebra": (
        lambda: natural_rep(SpecialOrthogonal(2)).derivative(np.eye(2)),
        "The derivative of a representation of SpecialOrthogonal(2) is taken along its Lie algebra; got",
    ),
    "fewer than no draws": (
        lambda: SpecialOrthogonal(3).haar(0, -1),
        "haar's n is a whole number >= 0; got -1. Write 0, for example.",
    ),
    "half a draw": (lambda: Cyclic(3).haar(0, 2.5), "haar's n is a whole number; got 2.5."),
    "no key": (lambda: Cyclic(3).haar("x", 2), "haar's key is one key; got 'x'. Write jax.random.key(0), or"),
    "draws without end": (
        lambda: SpecialOrthogonal(3).haar(0, 10**18),
        "A table of 1000000000000000000 draws of SpecialOrthogonal(3) would need 7.2e+01 EB of memory;",
    ),
    "a space without end": (lambda: Symmetric(10**18), "A matrix of Symmetric(1000000000000000000) would need 8.0e+18"),
    "a list without end": (lambda: Cyclic(10**9).elements(), "A matrix of Cyclic(1000000000) would need 8.0e+00 EB of"),
    "turns finer than rounding": (
        lambda: PlanarRotations(10**9),
        "Turns by 2π/n are told apart up to n = 1e+07; got PlanarRotations(1000000000). Write `SpecialOrthogonal(2)`",
    ),
    "an order of many digits": (
        lambda: Symmetric(3000).elements(),
        "The list of elements of Symmetric(3000) would hold 1e9130 × 3000 × 3000 numbers;",
    ),
    "changes of sign without end": (
        lambda: natural_rep(Signs(10_000)).fixed_basis(),
        "The generators of Signs(10000) would need 16 TB of memory;",
    ),
    "turnings without end": (
        lambda: natural_rep(SpecialOrthogonal(2000)).fixed_basis(),
        "The Lie algebra of SpecialOrthogonal(2000) would need 128 TB of memory;",
    ),
    "coordinates without end": (
        lambda: (natural_rep(Symmetric(1000)) ** 5).fixed_basis(),
        "The orbits of natural_rep(Symmetric(1000)) * natural_rep(Symmetric(1000))",
    ),
    "a power without end": (
        lambda: natural_rep(Cyclic(2)) ** 10**9,
        "is at most 64; got 1000000000. Write a smaller one.",
    ),
    "pixels without end": (
        lambda: image_rep(PlanarRotations(4), 10**5, 10**5),
        "The pixels moved by PlanarRotations(4) would hold 4 × 100000 × 100000 numbers;",
    ),
    "classes without end": (
        lambda: character_dimension(_askew(Symmetric(60))),
        "takes 966467 of them, and at most 5000 are summed. Write `rep.fixed_basis().shape[1]`, which works",
    ),
    "a group for a dimension": (lambda: character_dimension(Cyclic(2)), "character_dimension's rep is a Rep; got a"),
    "copies": (lambda: 0 * natural_rep(Cyclic(2)), "a whole number >= 1; got 0."),
    "empty space": (lambda: trivial_rep(Cyclic(2), -1), "a whole number >= 1; got -1."),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_refusals_say_the_rule_what_was_got_and_what_to_write(name):
    make, sentence = SENTENCES[name]
    with pytest.raises(Refusal) as refusal:
        make()
    assert sentence in str(refusal.value)


def test_a_group_of_permutations_that_takes_too_long_is_refused_with_what_it_took(monkeypatch):
    monkeypatch.setattr(chains, "WORK", 10**5)
    with pytest.raises(Refusal, match=r"chain of stabilisers; on 50 points this one moves more than 1e\+05 numbers"):
        _ = Permutations([np.roll(np.arange(50), 1), [1, 0, *range(2, 50)]]).order
    monkeypatch.undo()
    monkeypatch.setattr(chains, "MOST", 10**4)
    with pytest.raises(Refusal, match=r"on 49 points this one holds more than 1.0e\+04 numbers, .*needs no order"):
        _ = Permutations([np.roll(np.arange(49), 1), [1, 0, *range(2, 49)]]).order
