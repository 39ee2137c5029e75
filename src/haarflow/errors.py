"""The one kind of complaint haarflow makes about its input."""


class Refusal(ValueError):
    """Bad input, in one sentence: the owner, its rule, what was got, and what to write instead."""


def one_of(owner: str, choice: str, choices) -> str:
    """The choice itself, or a refusal that lists what could have been chosen."""
    if choice not in choices:
        raise Refusal(f"{owner} is one of {', '.join(sorted(choices))}; got {choice!r}.")
    return choice
