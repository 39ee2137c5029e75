"""How an argument is bent: for each kind of argument, what is certainly bad in its place and what may well be fine.

- BAD: only a Refusal is right.
- FINE: an answer of the usual kind, without NaN, or a Refusal.
- SAME: a change of type only; the usual answer, up to the precision of the type, or a Refusal.
- TRACED: the right value, seen by a compiler; anything or a Refusal.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

BAD, FINE, SAME, TRACED, LATE = "bad", "fine", "same", "traced", "late"


class Bent(NamedTuple):
    """Another source for an argument, with {} where the right one stands; what it is; the precision it leaves.

    What is wrong with a thing `late` may come out when it is used, not when it is made. What is bad `beside` the other
    arguments, such as a size that they decide, may be right beside others.
    """

    source: str
    verdict: str
    slack: float = 1e-12
    late: bool = False
    beside: bool = False


@dataclass(frozen=True)
class Arg:
    """The right source of an argument, and the ways to bend it."""

    source: str
    ways: tuple[Bent, ...] = ()

    def also(self, *bad: str, late=(), fine=(), same=()) -> "Arg":
        """The argument with a few ways more, which its kind does not know."""
        more = [Bent(s, BAD, beside=True) for s in bad] + [Bent(s, BAD, late=True, beside=True) for s in late]
        more += [Bent(s, FINE) for s in fine] + [Bent(s, SAME) for s in same]
        return replace(self, ways=(*self.ways, *more))

    def when_made(self) -> "Arg":
        """The argument with those ways that must be refused when the thing is made."""
        return replace(self, ways=tuple(way for way in self.ways if not way.late))

    def when_used(self) -> "Arg":
        """The argument with those ways that may come out when the thing is used."""
        return replace(self, ways=tuple(way for way in self.ways if way.late or way.verdict != BAD))

    def bent(self) -> list[Bent]:
        """Every way, written out."""
        return [way._replace(source=way.source.replace("{}", self.source)) for way in self.ways]


def _made(source: str, *, bad=(), beside=(), fine=(), same=(), loose=(), optional: bool) -> Arg:
    """An argument of a kind; where None is a default it is left alone. `loose` are the same in float32."""
    nothing = [] if optional else ["None"]
    ways = [Bent(way, BAD) for way in (*nothing, *bad)] + [Bent(way, BAD, beside=True) for way in beside]
    ways += [Bent(way, FINE) for way in fine] + [Bent(way, SAME) for way in same]
    return Arg(source, (*ways, *(Bent(way, SAME, 1e-4) for way in loose)))


_STRANGERS = ('"three"', "object()", "dict(a=1)")


def number(source: str, *, above=None, least=None, below=None, most=None, rows=False, optional=False) -> Arg:
    """A finite real number, within bounds if there are any; with `rows`, arrays of numbers are welcome too."""
    bad = [*_STRANGERS, "np.nan", "np.inf", "-np.inf", "1j", "lambda: 0.5", "[[0.5], [0.25, 0.5]]", '"0.5"']
    bad += [] if rows else ["[0.5, 0.25]", "np.ones((2, 3))"]
    beside = [] if above is None else [repr(float(above)), repr(above - 0.5)]
    beside += [] if least is None else [repr(least - 0.5), repr(least - 2.0**-30)]
    beside += [] if below is None else [repr(float(below)), repr(below + 0.5)]
    beside += [] if most is None else [repr(most + 0.5)]
    fine = [] if (below or most) is not None else ["1e300"]
    fine += ["1e-300"] if (above or least or 0) == 0 else []
    same = ["np.float64({})", "np.array({})", "jnp.asarray({})"]
    same += ["int({})", "np.int64({})"] if source.replace("-", "").endswith(".0") else []
    loose = ["np.float32({})"]
    return _made(source, bad=bad, beside=beside, fine=fine, same=same, loose=loose, optional=optional)


def count(source: str, *, least=1, most=None, huge=BAD, rows=False, optional=False) -> Arg:
    """A whole number; `huge` says whether 10¹⁸ and more of it could ever be meant, or comes out LATE, in use."""
    bad = [*_STRANGERS, "np.nan", "np.inf", "2.5", "1j", '"3"', *([] if rows else ["[1, 2]", "np.array([2, 3])"])]
    beside = [repr(least - 1), repr(least - 2), "-10**30", *([] if most is None else [repr(most + 1)])]
    large = ["10**18", "10**30", "1e30"]
    small = "np.uint8({})" if int(source) < 256 else "np.uint16({})"
    same = ["np.int32({})", "np.int64({})", small, "np.array({})", "jnp.asarray({})", "float({})"]
    fine = ["True", *(large if huge == FINE else [])]
    beside += large if huge == BAD else []
    found = _made(source, bad=bad, beside=beside, fine=fine, same=same, optional=optional)
    return found.also(late=large if huge == LATE else ())


def flag(source: str) -> Arg:
    """True or False."""
    return _made(source, bad=['"no"', "np.nan", "[0.5]", "object()"], same=["np.bool_({})"], optional=True)


def choice(source: str, *, optional=False) -> Arg:
    """One of a few words."""
    return _made(source, bad=['"nonsense"', "3", "[{}]", "np.nan", '""', "object()"], optional=optional)


def array(source: str, *, width=True, rows=True, lead=False, empty=BAD, whole=False, optional=False) -> Arg:
    """Real numbers in rows; whether the last and the first axis have a length that the rest of the call decides.

    `lead` welcomes axes before the rows; `empty` says whether no rows at all could be meant; `whole` that the numbers
    are, and may be given as integers.
    """
    bad = [*_STRANGERS, "np.array([['a', 'b']])", "[[1.0, 2.0], [3.0]]", "1j * np.asarray({})"]
    bad += ["[[object()]]", "3.0", "holed({})", "opened({})", *([] if lead else ["np.asarray({})[None, None]"])]
    bad += ["np.asarray({})[:0]", "[]"] if empty == BAD else []
    beside = ["wider({})", "narrower({})", "thin({})"] if width else []
    beside += ["longer({})", "shorter({})", "lone({})"] if rows else []
    same = ["np.asarray({}).tolist()", "jnp.asarray({})", "np.asfortranarray({})", "frozen({})"]
    same += ["np.asarray({}).astype(int)", "np.asarray({}).astype(np.int8).tolist()"] if whole else []
    same += ["np.asarray({}).astype(object)", "np.repeat(np.asarray({}), 2, axis=0)[::2]"]
    fine = ["np.asarray({})[:0]"] if empty == FINE else []
    loose = ["np.asarray({}, np.float32)"]
    found = _made(source, bad=bad, beside=beside, fine=fine, same=same, loose=loose, optional=optional)
    return replace(found, ways=(*found.ways, Bent("traced", TRACED)))


def key(source: str = "key", *, many=False) -> Arg:
    """A key: of either kind, or an integer seed; `batched` welcomes a row of them."""
    bad = [*_STRANGERS, "1.5", "np.nan", "np.zeros(2)", "[]", "[[7, 8]]"]
    bad += [] if many else ["jax.random.split(key, 3)", "[7, 8]", "np.zeros(3, np.uint32)"]
    same = ["jax.random.PRNGKey(7)", "7", "np.int64(7)", "np.asarray(jax.random.key_data({}))", "np.uint32(7)"]
    return _made(source, bad=bad, fine=["-1", "10**30", "2**63", "True"], same=same, optional=False)


def cloud(source: str, *, stack=False, dim=True, drawn=False, optional=False) -> Arg:
    """A cloud; whether a stack of clouds will do, and whether its dimension is decided by the rest of the call.

    With `drawn`, random numbers of its precision are drawn, others in float32 than in float64.
    """
    bad = [*_STRANGERS, "3.0", "hf.Cloud", "[{}]", "unit", "swap", "np.ones(3)", "np.nan", "[[1.0, 2.0], [3.0]]"]
    bad += [] if stack else ["hf.stack_clouds([{}, {}])"]
    beside, fine, loose = ["lifted({})"] * dim, ["{}.atoms"], ["float32({})"]
    kinds = {"fine": fine + loose * drawn, "loose": loose * (not drawn), "optional": optional}
    found = _made(source, bad=bad, beside=beside, **kinds)
    return replace(found, ways=(*found.ways, Bent("traced", TRACED)))


def rep(source: str, *, finite=False, shared=True, dim=True, matrix=False, times=False, optional=False) -> Arg:
    """A representation: of a finite group, of the group of another argument, of a size that the call decides.

    With `matrix`, a projector will do in its place; with `times`, a whole number.
    """
    bad = [*_STRANGERS, *([] if times else ["3"]), "{}.group", "hf.Rep", "np.nan", "np.ones((7, 7))", "unit", "cloud"]
    beside = ["{} + {}"] if dim else []
    beside += ["hf.trivial_rep(hf.Cyclic(3), {}.dim)", "hf.trivial_rep(hf.Signs(2), {}.dim)"] if shared else []
    bad += ["hf.trivial_rep(circle, {}.dim)"] if finite else []
    bad += ["np.ones(({}.dim, {}.dim))", "5 * np.eye({}.dim)", "holed(np.eye({}.dim))"] if matrix else []
    same = ["{}.fixed_projector()", "{}.fixed_projector().tolist()"] if matrix else []
    return _made(source, bad=bad, beside=beside, same=same, optional=optional)


def group(source: str, *, finite=False) -> Arg:
    """A group."""
    bad = [*_STRANGERS, '"Cyclic"', "3", "hf.Cyclic", "hf.natural_rep({})", "np.eye(2)", "np.nan", "unit"]
    return _made(source, bad=[*bad, "circle"] if finite else bad, optional=False)


def thing(source: str, *wrong: str, late=(), optional=False) -> Arg:
    """A member of some kind; `wrong` are members of other kinds, `late` those whose sizes do not fit."""
    bad = [*_STRANGERS, "3.0", "type({})", "np.nan", "np.ones((2, 2))", "[{}, 3.0]"]
    return _made(source, bad=bad, beside=wrong, optional=optional).also(late=late)


def function(source: str, *wrong: str, optional=False) -> Arg:
    """A function; `wrong` are functions that return something else."""
    return _made(source, bad=[*_STRANGERS, "3.0", "np.nan", "[{}]"], optional=optional).also(late=wrong)


def method(source: str, *wrong: str) -> Arg:
    """What a member of a user's own does; `wrong` are methods that return something else."""
    return Arg(source).also(*wrong)


def one_of(source: str, *wrong: str, optional=False) -> Arg:
    """Something with rules of its own: a path, a shape, a list of things; `wrong` are what breaks them."""
    return _made(source, bad=["object()", "dict(a=1)", "np.nan"], beside=wrong, optional=optional)
