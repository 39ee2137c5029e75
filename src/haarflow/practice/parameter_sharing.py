"""Parameter sharing: which coordinates of a subspace are tied, with signs, and the symmetries that fix it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from haarflow.doors import Count, NonNegative, door
from haarflow.errors import Refusal
from haarflow.values import refuse_unless_affordable, said

STEPS = 1_000_000
"""The most images that a search for symmetries tries (a minute or two)."""


@door
@dataclass(frozen=True, eq=False)
class Sharing:
    """The tied coordinates of R^p: z_i = signs[i] · w[labels[i]] for k free weights w; label −1 means zero."""

    labels: Int[np.ndarray, " p"]
    signs: Float[np.ndarray, " p"]

    def __post_init__(self):
        used = np.unique(self.labels[self.labels >= 0])
        if not len(self.labels) or self.labels.min() < -1 or not np.array_equal(used, np.arange(len(used))):
            raise Refusal(
                f"Sharing's labels are 0 … k−1, each of them used, or −1 for zero; got {said(self.labels)} that are "
                "not. Write for instance labels=[0, 0, 1, -1]."
            )
        _refuse_signs("Sharing", self.signs[self.labels >= 0])

    @property
    def free(self) -> int:
        """How many weights the pattern leaves free."""
        return int(self.labels.max(initial=-1)) + 1

    def basis(self) -> Float[np.ndarray, "p k"]:
        """An orthonormal basis of all vectors with this pattern, one column for each free weight."""
        columns = self.signs[:, None] * (self.labels[:, None] == np.arange(self.free)[None, :])
        return columns / np.sqrt(np.maximum((columns**2).sum(axis=0, keepdims=True), 1))

    def groups(self) -> list[list[tuple[int, int]]]:
        """The tied coordinates, free weight by free weight, each with its sign: (coordinate, ±1)."""
        places = [np.flatnonzero(self.labels == label) for label in range(self.free)]
        return [[(int(i), int(self.signs[i])) for i in members] for members in places]

    def zeros(self) -> list[int]:
        """The coordinates that are always zero."""
        return np.flatnonzero(self.labels < 0).tolist()

    @door
    def words(self, shape: tuple[Count, Count] | None = None) -> list[list[str]]:
        """A letter for every weight, row by row of that shape: the same letter is tied, a minus its opposite."""
        height, width = _shaped(len(self.labels), shape)
        names = [
            "0" if label < 0 else f"{'−' if sign < 0 else ''}{_letter(int(label))}"
            for label, sign in zip(self.labels, self.signs, strict=True)
        ]
        return [names[row * width : (row + 1) * width] for row in range(height)]

    def text(self, shape: tuple[int, int] | None = None) -> str:
        """The letters as lines of text."""
        rows = self.words(shape)
        wide = max(len(word) for row in rows for word in row)
        return "\n".join(" ".join(word.rjust(wide) for word in row) for row in rows)

    @door
    def draw(
        self,
        axis: Any,
        *,
        shape: tuple[Count, Count] | None = None,
        colours: Sequence[str] | None = None,
        letters: bool = True,
    ) -> None:
        """The letters on a matplotlib axis, with a colour for each free weight; without `letters`, colours only."""
        from matplotlib.axes import Axes
        from matplotlib.colors import is_color_like
        from matplotlib.patches import FancyBboxPatch

        rows = self.words(shape)
        shades = colours or [f"C{i}" for i in range(10)]
        if not isinstance(axis, Axes) or not all(map(is_color_like, shades)):
            raise Refusal(
                f"A pattern is drawn on a matplotlib axis in matplotlib's colours; got {said(axis)} and "
                f"{', '.join(shades)}. Write `draw(plt.gca())`."
            )
        for place, (row, column) in enumerate(np.ndindex(len(rows), len(rows[0]))):
            paint = shades[self.labels[place] % len(shades)] if self.labels[place] >= 0 else "none"
            box = {"boxstyle": "round,pad=0.02", "facecolor": paint, "edgecolor": "none", "alpha": 0.35}
            axis.add_patch(FancyBboxPatch((column - 0.42, row - 0.4), 0.84, 0.8, **box))
            size = 14 - len(rows[0]) if len(rows[0]) < 8 else 6
            if letters:
                axis.text(column, row, rows[row][column], ha="center", va="center", fontsize=size)
        axis.set(xlim=(-0.6, len(rows[0]) - 0.4), ylim=(len(rows) - 0.4, -0.6), aspect="equal")
        axis.axis("off")


def _shaped(p: int, shape: tuple[int, int] | None) -> tuple[int, int]:
    """The shape, if it holds the p parameters; without one, a single row."""
    height, width = shape if shape is not None else (1, p)
    if height * width != p:
        raise Refusal(
            f"A shape (c, d) holds c·d = {p} parameters; got ({height}, {width}). Write shape=(outputs, inputs)."
        )
    return height, width


def _letter(label: int) -> str:
    """a … z, then aa, ab and so on."""
    first, last = divmod(label, 26)
    return (_letter(first - 1) if first else "") + "abcdefghijklmnopqrstuvwxyz"[last]


@door
def sharing(basis: Float[np.ndarray, "p k"], *, tolerance: NonNegative = 0.3) -> Sharing:
    """The coordinates of a subspace that are equal up to sign, or zero.

    Coordinates i and j are tied on a subspace when their rows of an orthonormal basis are equal up to sign,
    whichever basis it is. Rows that differ by at most `tolerance` times the typical row (k/p)^½ count as equal.
    """
    p, k = _orthonormal("sharing", basis).shape
    refuse_unless_affordable(
        f"The comparison of {p} coordinates", 24.0 * (p + 1) ** 2 * max(k, 1), instead="Give fewer coordinates."
    )
    return tied(basis, tolerance * np.sqrt(max(k, 1) / p))


def tied(rows: Float[np.ndarray, "p k"], radius: float, *, errors: Float[np.ndarray, "p k"] | None = None) -> Sharing:
    """Rows in groups of diameter about `radius`, up to sign; those grouped with the origin are zero.

    The diameter is moved up, by a factor of 3 at most, into the widest gap between groups: there no pair of rows is a
    close call. With standard `errors` of the entries, differences are measured in them.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    points = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
    variances = None if errors is None else np.concatenate([errors**2, np.zeros((1, rows.shape[1]))])
    same, opposite = (_distances(points, sign * points, variances) for sign in (1, -1))
    nearest = np.minimum(same, opposite)
    np.fill_diagonal(nearest, 0)
    tree = linkage(squareform(nearest, checks=False), "complete")
    names = fcluster(tree, _clear(tree[:, 2], radius), "distance")
    labels, signs = np.full(len(rows), -1), np.zeros(len(rows))
    for i in np.flatnonzero(names[:-1] != names[-1]):
        first = int(np.flatnonzero(names == names[i])[0])
        labels[i] = labels.max() + 1 if first == i else labels[first]
        signs[i] = 1.0 if same[i, first] <= opposite[i, first] else -1.0
    return Sharing(labels, signs)


def tie(basis: Float[np.ndarray, "p k"], pattern: Sharing) -> tuple[Float[np.ndarray, "p m"], list[int]]:
    """The columns brought into the pattern one after the other, and which of them are kept.

    Tied rows become their signed mean and zero rows zero; a column that loses most of its length goes.
    """
    kept, made = [], np.zeros((len(basis), 0))
    for j, column in enumerate((pattern.basis() @ (pattern.basis().T @ basis)).T):
        rest = column - made @ (made.T @ column)
        if np.linalg.norm(rest) > 0.5:
            made = np.concatenate([made, rest[:, None] / np.linalg.norm(rest)], axis=1)
            kept.append(j)
    return made, kept


@door
@dataclass(frozen=True, eq=False)
class SignedPermutation:
    """A signed permutation of the outputs and one of the inputs: e_i goes to signs[i] · e_images[i]."""

    outputs: Int[np.ndarray, " c"]
    output_signs: Int[np.ndarray, " c"]
    inputs: Int[np.ndarray, " d"]
    input_signs: Int[np.ndarray, " d"]

    def __post_init__(self):
        for name, images in (("outputs", self.outputs), ("inputs", self.inputs)):
            if not len(images) or not np.array_equal(np.sort(images), np.arange(len(images))):
                raise Refusal(
                    f"SignedPermutation's {name} hold each of 0 … {len(images) - 1} once; got {said(images)} that do "
                    "not. Write the image of each coordinate."
                )
        _refuse_signs("Symmetry", np.concatenate([self.output_signs, self.input_signs]))

    def matrices(self) -> tuple[Float[np.ndarray, "c c"], Float[np.ndarray, "d d"]]:
        """The matrices A on outputs and B on inputs; the parameters z (c×d) move to A z Bᵀ."""
        return _matrix(self.outputs, self.output_signs), _matrix(self.inputs, self.input_signs)


@door
def symmetries(
    basis: Float[np.ndarray, "p k"],
    *,
    shape: tuple[Count, Count] | None = None,
    tolerance: NonNegative = 0.3,
    limit: Count = 5000,
) -> list[SignedPermutation]:
    """Every pair of signed permutations (A, B) with A z Bᵀ = z for all matrices z (c×d) of a subspace.

    (A, B) and (−A, −B) move the parameters alike and are listed once, the identity first. Without a shape the
    parameters are one row. The search gives each output and input its image in turn, most connected first, and
    keeps what agrees with the images given so far; it ends with a refusal after a million of them.
    """
    c, d = _shaped(len(_orthonormal("symmetries", basis)), shape)
    slack = tolerance * np.sqrt(max(basis.shape[1], 1) / basis.shape[0])
    found = list(islice(_search(basis.reshape(c, d, -1), slack), limit + 1))
    if len(found) > limit:
        raise Refusal(
            f"A list of symmetries stops at {limit}; got more: some coordinates are interchangeable, so their "
            "permutations multiply. Read the tied groups of `sharing(basis)` instead, or raise limit=."
        )
    return found


def _search(entries: Float[np.ndarray, "c d k"], slack: float) -> Iterator[SignedPermutation]:
    """Images (place, sign) for outputs 0 … c−1 and inputs c … c+d−1, by depth-first search."""
    c, d, _ = entries.shape
    order = _connected(np.linalg.norm(entries, axis=-1) > slack)
    images: dict[int, tuple[int, int]] = {}

    def choices(vertex: int) -> Iterator[tuple[int, int]]:
        """The images and signs that agree with those given so far, the vertex itself first."""
        output = vertex < c
        table, first, opposite = (entries, 0, c) if output else (entries.swapaxes(0, 1), c, 0)
        across = [(other, *image) for other, image in images.items() if (other < c) != output]
        others, there, flips = np.array(across, int).reshape(-1, 3).T
        wanted = table[vertex - first, others - opposite][None]
        offered = flips[None, :, None] * table[:, there - opposite]
        taken = {image for other, (image, _) in images.items() if (other < c) == output}
        signs = (1, -1) if images else (1,)
        fits = {sign: (np.linalg.norm(sign * offered - wanted, axis=-1) <= slack).all(axis=1) for sign in signs}
        for image in sorted(range(first, first + len(table)), key=lambda place: (place != vertex, place)):
            if image not in taken:
                yield from ((image, sign) for sign in signs if fits[sign][image - first])

    stack, steps = [choices(order[0])], 0
    while stack:
        images.pop(order[len(stack) - 1], None)
        choice = next(stack[-1], None)
        if choice is None:
            stack.pop()
            continue
        images[order[len(stack) - 1]] = choice
        steps = _counted(steps)
        if len(stack) == len(order):
            yield _symmetry(images, c, d)
        else:
            stack.append(choices(order[len(stack)]))


def _counted(steps: int) -> int:
    """One step more, refused where the search takes too many."""
    if steps >= STEPS:
        raise Refusal(
            f"A search for symmetries tries {STEPS} images at most; this subspace took more. Read the tied groups of "
            "`sharing(basis)` instead, or write a smaller tolerance=."
        )
    return steps + 1


def _connected(linked: np.ndarray) -> list[int]:
    """Outputs and inputs in breadth-first order along the nonzero entries, one component after the other."""
    from scipy.sparse import bmat, csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    c, d = linked.shape
    graph = bmat([[None, csr_matrix(linked)], [csr_matrix(linked.T), None]], format="csr")
    order: dict[int, None] = {}
    for vertex in range(c + d):
        if vertex not in order:
            found = breadth_first_order(graph, vertex, directed=False, return_predecessors=False)
            order |= dict.fromkeys(found.tolist())
    return list(order)


def _symmetry(images: dict[int, tuple[int, int]], c: int, d: int) -> SignedPermutation:
    places = np.array([images[v][0] for v in range(c + d)])
    signs = np.array([images[v][1] for v in range(c + d)])
    return SignedPermutation(places[:c], signs[:c], places[c:] - c, signs[c:])


def _matrix(images: np.ndarray, signs: np.ndarray) -> np.ndarray:
    matrix = np.zeros((len(images), len(images)))
    matrix[images, np.arange(len(images))] = signs
    return matrix


def _orthonormal(owner: str, basis: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "p k"]:
    """The basis itself, where its columns are orthonormal (to three digits, for those found in float32)."""
    gap = np.max(np.abs(basis.T @ basis - np.eye(basis.shape[1])), initial=0.0)
    if not len(basis) or gap > 1e-3:
        raise Refusal(
            f"{owner} takes an orthonormal basis of a subspace in its columns, (p, k); got the shape {basis.shape}, "
            f"with products off the identity by {gap:.1e}. Write `np.linalg.qr(basis)[0]`."
        )
    return basis


def _refuse_signs(owner: str, signs: np.ndarray) -> None:
    if np.any(np.abs(signs) != 1):
        raise Refusal(
            f"{owner} has a sign, 1 or −1, for each coordinate; got {signs[np.abs(signs) != 1][0]:g} among them. "
            "Write for instance [1, -1]."
        )


def _clear(heights: np.ndarray, radius: float) -> float:
    """The middle of the widest gap, as a ratio, between radius and 3 radius and the heights between them."""
    inside = heights[(heights > radius) & (heights < 3 * radius)]
    if not len(inside):
        return radius
    edges = np.concatenate([[radius], np.sort(inside), [3 * radius]])
    widest = int(np.argmax(edges[1:] / edges[:-1]))
    return float(np.sqrt(edges[widest] * edges[widest + 1]))


def _distances(a: np.ndarray, b: np.ndarray, variances: np.ndarray | None) -> np.ndarray:
    squares = (a[:, None] - b[None, :]) ** 2
    if variances is not None:
        both = variances[:, None] + variances[None, :]
        squares = squares / np.where(both > 0, both, 1)
    return np.sqrt(squares.sum(axis=-1))
