"""What a distance would cost, told before the work: longer than an hour, or more than the memory, is refused."""

from haarflow.errors import Refusal
from haarflow.measures.samples import Pair
from haarflow.values import refuse_unless_affordable

HOUR = 3600

FEWER = "Write `force=True` to wait, or fewer atoms: `cloud.resample(key, n)`."


def refuse_hours(owner: str, seconds: float, instead: str, *, force: bool = False) -> None:
    """Refuse what takes longer than an hour, unless it is insisted on."""
    if seconds > HOUR and not force:
        raise Refusal(f"{owner} takes up to an hour unasked; this takes about {seconds / HOUR:.3g} hours. {instead}")


def refuse_many_projections(owner: str, given: Pair, projections: int) -> None:
    """Refuse directions that do not fit in memory, or take hours to sort along."""
    instead = "Write fewer `projections`."
    refuse_unless_affordable(
        f"{owner} along {projections:.3g} directions", 16.0 * projections * given.x.shape[1], instead=instead
    )
    refuse_hours(f"{owner} along {projections:.3g} directions", (2e-5 + 5e-7 * given.atoms) * projections, instead)


def refuse_orbit(n: int, p: int, elements: int) -> None:
    """Refuse an orbit whose atoms do not fit in memory."""
    refuse_unless_affordable(
        f"The orbit of {n:,} atoms under {elements:,} elements",
        16.0 * n * p * elements,
        instead="Write fewer `elements`, or fewer atoms: `cloud.resample(key, n)`.",
    )
