"""Stabiliser chains: how many permutations some of them make, found at random and then proven."""

import math
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from haarflow.algebra.checks import MOST
from haarflow.algebra.fixed_space import components
from haarflow.errors import Refusal

Permutation = Int[np.ndarray, " n"]
Table = Int[np.ndarray, "_ n"]

POOL = 32
"""How many random elements are drawn at once."""

WARM = 20
"""How often the pool is multiplied before its elements count as random."""

QUIET = 3
"""The random search ends after this many draws in a row that add nothing."""

BATCH = 2**18
"""The most numbers in one batch of products."""

WORK = 10**10
"""The most numbers that the proof may move (about half a minute); beyond it the group is refused."""


class Level(NamedTuple):
    """The orbit of a base point: for each point of it, an element that brings the base there, and its inverse."""

    base: int
    row: Int[np.ndarray, " n"]
    there: Table
    back: Table


class Chain:
    """Levels G ≥ G_b ≥ G_bc ≥ …, each with the elements that brought it more points than the levels below did."""

    def __init__(self, n: int):
        self.n = n
        self.moved = 0
        self.levels: list[Level] = []
        self.letters: list[list[Permutation]] = []

    @property
    def order(self) -> int:
        return math.prod(len(level.there) for level in self.levels)

    def sift(self, elements: Table, start: int = 0) -> tuple[Table, Int[np.ndarray, " _"]]:
        """What the levels leave of the elements, those that they leave nothing of dropped, and where each stuck."""
        stuck = np.full(len(elements), len(self.levels))
        for depth, level in enumerate(self.levels[start:], start):
            rows = level.row[elements[:, level.base]]
            stuck[(rows < 0) & (stuck > depth)] = depth
            rows[stuck <= depth] = 0  # the identity
            elements = level.back.ravel().take(rows[:, None] * self.n + elements)
        rest = np.any(elements != np.arange(self.n), axis=1)
        return elements[rest], stuck[rest]

    def absorb(self, elements: Table) -> bool:
        """Grow until the levels hold all these elements; whether that took anything."""
        grown = False
        elements, stuck = self.sift(elements)
        while len(elements):
            self._insert(elements[0], int(stuck[0]))
            self.spend(elements.size * len(self.levels))
            elements, stuck = self.sift(elements)
            grown = True
        return grown

    def words(self, depth: int) -> Iterator[Table]:
        """The products s u of the letters s from this level down and the elements u of the level, in batches."""
        letters, there = self._letters(depth), self.levels[depth].there
        size = max(1, BATCH // there.size)
        for first in range(0, len(letters), size):
            yield letters[first : first + size][:, there].reshape(-1, self.n)

    def work(self) -> int:
        """How many numbers the sifting of all words moves."""
        sizes = [len(level.there) for level in self.levels]
        letters = np.cumsum([len(given) for given in self.letters][::-1])[::-1].tolist()
        deep = range(len(sizes), 0, -1)
        return self.n * sum(o * s * d for o, s, d in zip(sizes, letters, deep, strict=True))

    def spend(self, numbers: int) -> None:
        """Count numbers that are moved, and refuse a group that takes too many."""
        self.moved += numbers
        if self.moved > WORK:
            raise self._refusal(f"this one moves more than {WORK:.0e} numbers, the most that are moved")

    def _refuse_large(self) -> None:
        held = 2 * self.n * sum(len(level.there) for level in self.levels)
        if held > MOST:
            raise self._refusal(f"this one holds more than {MOST:.1e} numbers, the most that are held")

    def _refusal(self, why: str) -> Refusal:
        return Refusal(
            f"A group of permutations is counted by a chain of stabilisers; on {self.n} points {why}. Write "
            "`Symmetric(n)` or `Alternating(n)` where it is one; `natural_rep(group).fixed_basis()` needs no order."
        )

    def _letters(self, depth: int) -> Table:
        return np.array([p for given in self.letters[depth:] for p in given])

    def _insert(self, element: Permutation, depth: int) -> None:
        """Give a level an element that moves its base out of its orbit; the levels above have it too."""
        if depth == len(self.levels):
            base = int(np.argmax(element != np.arange(self.n)))
            self.levels.append(_level(base, np.zeros((0, self.n), np.int32)))
            self.letters.append([])
        self.letters[depth].append(element)
        for i in range(depth + 1):
            reached = self.levels[i].there[:, self.levels[i].base]
            if np.any(self.levels[i].row[element[reached]] < 0):
                self.levels[i] = _level(self.levels[i].base, self._letters(i))
                self.spend(20 * self.levels[i].there.size)
        self._refuse_large()


def stabilisers(generators: Table) -> tuple[Level, ...]:
    """The levels of a stabiliser chain: every element is one product of one element from each level, exactly.

    Random elements find the chain. It is proven by its order, where that is the most that the orbits and the signs
    of the generators allow, as for all (even) permutations; otherwise by Schreier's lemma: at each level all
    products of its elements and of the letters belong to the chain.
    """
    chain, quiet, generators = Chain(generators.shape[1]), 0, generators.astype(np.int32)
    chain.absorb(generators)
    for elements in _random(generators):
        quiet = 0 if chain.absorb(elements) else quiet + 1
        if quiet == QUIET:
            break
    most = _most(generators)
    while chain.order != most and not _proven(chain):
        continue
    return tuple(chain.levels)


def belongs(levels: tuple[Level, ...], element: Permutation) -> bool:
    """Whether a permutation is a product of one element from each level."""
    for level in levels:
        row = level.row[element[level.base]]
        if row < 0:
            return False
        element = level.back[row][element]
    return bool(np.all(element == np.arange(len(element))))


def _proven(chain: Chain) -> bool:
    """True when all words sift; otherwise the chain has grown by those that did not."""
    chain.spend(chain.work())
    for depth in reversed(range(len(chain.levels))):
        for words in chain.words(depth):
            rest, _ = chain.sift(words, depth)
            if len(rest):
                chain.absorb(rest[:POOL])
                return False
    return True


def _level(base: int, letters: Table) -> Level:
    """The orbit of the base point under the letters, nearest points first."""
    n, row = letters.shape[1], np.full(letters.shape[1], -1)
    fresh = np.arange(n, dtype=np.int32)[None]
    found, row[base] = [fresh], 0
    while len(fresh) and len(letters):
        images = letters[:, fresh[:, base]]
        points, places = np.unique(images, return_index=True)
        new = row[points] < 0
        letter, element = np.unravel_index(places[new], images.shape)
        row[points[new]] = row.max() + 1 + np.arange(new.sum())
        fresh = letters[letter[:, None], fresh[element]]
        found.append(fresh)
    there = np.concatenate(found)
    return Level(base, row, there, np.argsort(there, axis=1).astype(np.int32))


def _random(generators: Table) -> Iterator[Table]:
    """Random elements, by multiplying the members of a pool with each other."""
    draw = np.random.default_rng(20240531)
    pool = generators[np.arange(2 * POOL) % len(generators)]
    for step in count():
        order = draw.permutation(2 * POOL)
        left, right = order[:POOL], order[POOL:]
        pool[left] = pool[left[:, None], pool[right]]
        if step >= WARM:
            yield pool[left]


def _most(generators: Table) -> int:
    """The most elements that the group can have: those that keep the orbits, with the signs on them that occur."""
    orbit = components(generators)
    sizes = np.bincount(orbit)
    signs = np.stack([_odd(p, orbit) for p in generators])
    freedoms = int(np.sum(sizes > 1)) - _rank(signs)
    return math.prod(math.factorial(int(size)) for size in sizes) // 2**freedoms


def _odd(p: Permutation, orbit: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " c"]:
    """On which orbits the permutation is odd: where points minus cycles are odd in number."""
    first = np.unique(components(p[None]), return_index=True)[1]
    return (np.bincount(orbit) - np.bincount(orbit[first])) % 2 == 1


def _rank(rows: Bool[np.ndarray, "m c"]) -> int:
    """The rank over the field of two elements."""
    rows, rank = rows.copy(), 0
    for column in range(rows.shape[1]):
        with_one = np.flatnonzero(rows[rank:, column]) + rank
        if len(with_one):
            rows[[rank, with_one[0]]] = rows[[with_one[0], rank]]
            others = np.flatnonzero(rows[:, column])
            others = others[others != rank]
            rows[others] ^= rows[rank]
            rank += 1
    return rank
