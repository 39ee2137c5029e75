"""Whether matrices keep products: proven on all elements of a small group, checked by sampling on a large one."""

from collections.abc import Iterator
from itertools import chain, product

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from haarflow.algebra.base import Finite, Group
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import MOST, largest, refuse_broken, refuse_skewed
from haarflow.algebra.tables import Places, readonly
from haarflow.errors import Refusal

EVERY = 5040
"""Up to so many elements (those of S_7; seconds at most) a representation is checked on all of them."""

SAMPLES = 64
"""How many pairs of random elements of a larger group are looked at (fewer in large spaces), beside a few probes."""


def on_all(rep) -> bool:
    """Whether the group is small enough that the check looks at every element."""
    try:
        order = rep.group.order if isinstance(rep.group, Finite) else MOST + 1
    except Refusal:  # a group too large to be counted
        return False
    return order <= EVERY and order * rep.dim**2 <= MOST


def check(rep) -> None:
    """Refuse a representation that is not orthogonal or does not keep products."""
    if on_all(rep):
        assert isinstance(rep.group, Finite)
        keep_products(rep.group, rep.matrices())
        return
    probes = [(g, _image(rep, g)) for g in rep.group.probes()]
    drawn = (((g, _image(rep, g)), (h, _image(rep, h))) for g, h in samples(rep.group))
    for (g, a), (h, b) in chain(product(probes, probes), drawn):
        refuse_broken(rep.group, largest(_image(rep, g @ h) - a @ b))


def _image(rep, g: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
    image = np.asarray(rep.matrix(g))
    refuse_skewed(image[None])
    return image


def keep_products(group: Finite, table: Float[np.ndarray, "order k k"]) -> None:
    """Refuse matrices, one for each element, that are skewed or break rho(g s) = rho(g) rho(s) at a generator s."""
    refuse_skewed(table)
    refuse_broken(group, largest(table[0] - np.eye(table.shape[-1])))  # all there is to see without generators
    for generator, edges in zip(group.generators(), cayley(group), strict=True):
        refuse_broken(group, largest(table[edges] - table @ table[group.index(generator)]))


@remembered
def cayley(group: Finite) -> Int[np.ndarray, "m order"]:
    """The Cayley graph: the position of g s, for every generator s and element g."""
    places = Places(group.elements())
    rows = [places.find(group.elements() @ s) for s in group.generators()]
    return readonly(np.array(rows, dtype=np.int64).reshape(len(rows), group.order))


def samples(group: Group) -> Iterator[tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d d"]]]:
    """Pairs of random elements, the same at every call: a pool of generators and flows multiplied with each other."""
    draw, lie = np.random.default_rng(20240531), group.lie_algebra()
    count = max(2, min(SAMPLES, 2**18 // group.dim**2))
    turns = [scipy.linalg.expm(np.tensordot(draw.normal(scale=np.pi, size=len(lie)), lie, 1)) for _ in lie[:8]]
    letters = np.array([np.eye(group.dim), *group.generators(), *turns])
    pool = letters[draw.integers(len(letters), size=2 * count)]
    for _ in range(10):
        order = draw.permutation(2 * count)
        left, right = order[:count], order[count:]
        pool[left] = pool[left] @ pool[right]
    return zip(pool[:count], pool[count:], strict=True)
