"""Right calls for people with data: groups in words, tests of symmetry, and what they answer."""

from bend import one_of
from entry import Entry

ENTRIES = [
    Entry(
        "rep_from_words",
        "hf.rep_from_words({*}).dim",
        {
            "text": one_of('"permute columns a, c"', "3.0", "None", '"permute"', '"columns a"', '""', '"a.toml"'),
            "columns": one_of('["a", "b", "c"]', "[3.0, 4.0]", '"ac"', "[]", "0", '["a"]', optional=True).also(
                fine=("3",)
            ),
        },
    ),
]
