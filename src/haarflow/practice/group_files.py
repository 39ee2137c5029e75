"""A group in a TOML file: generators as permutations or matrices, and the columns that they move.

    permutations = [[1, 2, 0]]                 # images, from 0: the first goes to the place of the second
    columns = ["a", "b", "c"]                  # by name or number; without them, the first columns

or `matrices = [[[0, -1], [1, 0]]]`, orthogonal and row by row.
"""

import tomllib
from pathlib import Path
from typing import Any

from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.errors import Refusal

KEYS = ("permutations", "matrices", "columns")


def read_group(path: Path) -> tuple[Rep, tuple[str, ...] | None]:
    """The natural representation of the group in a file, and the columns it names."""
    facts = _parsed(path)
    strangers = [key for key in facts if key not in KEYS]
    given = [key for key in KEYS[:2] if key in facts]
    if strangers or len(given) != 1:
        got = f"the key {strangers[0]!r}" if strangers else f"{' and '.join(given) or 'neither'}"
        raise Refusal(
            f"A group file holds permutations or matrices, and columns; got {got} in {path.name}. Write "
            "permutations = [[1, 2, 0]], for example."
        )
    group = Permutations(facts["permutations"]) if "permutations" in facts else Matrices(facts["matrices"])
    columns = facts.get("columns")
    if columns is not None and (
        not isinstance(columns, list) or len(columns) != group.dim or not all(isinstance(c, str | int) for c in columns)
    ):
        raise Refusal(
            f"The columns of a group file are as many names or numbers as its generators move, {group.dim}; got "
            f'{columns!r:.60} in {path.name}. Write columns = ["a", "b"], for example.'
        )
    return natural_rep(group), None if columns is None else tuple(str(column) for column in columns)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"A group file must be readable; got {path}: {error.strerror}. Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(
            f"A group file is TOML; got {path.name}, which does not read as such ({error}). Write permutations = "
            "[[1, 2, 0]], for example."
        ) from None
