"""The types of settings: how large a number may be, and how the work of a run grows with it.

`widths: Sizes = (64, 256)`, `dt: Step = 0.1`: a form, a command line and the cost of a run read the same type.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class Work:
    """Says in a setting's type that the work grows like this power of it; of whole numbers it is known."""

    power: int


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Horizon = Annotated[float, Field(gt=0), Work(1)]  # a time to run for
Step = Annotated[float, Field(gt=0), Work(-1)]  # a time that each step makes
Sizes = Annotated[tuple[Count, ...], Field(min_length=2)]  # numbers along which a law is fitted
Steps = Annotated[tuple[Step, ...], Field(min_length=2)]  # and times of a step
Evens = Annotated[tuple[Annotated[int, Field(ge=2, multiple_of=2)], ...], Field(min_length=2)]  # and even numbers
