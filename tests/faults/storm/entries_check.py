"""Right calls for people with data: groups in words, tests of symmetry, and what they answer."""

from bend import array, choice, count, flag, key, number, one_of, rep
from entry import Entry

_X = "np.random.default_rng(3).normal(size=(24, 2))"
_Y = f"np.sum({_X} ** 2, axis=1)"
_FOUND = f"hf.check_symmetry({_X}, {_Y}, hf.natural_rep(hf.Cyclic(2)), key=0, copies=19, folds=2, subgroups=True)"
_ROWS = "np.random.default_rng(4).normal(size=(48, 2))"
_QUIET = one_of("False", "3.0", '"no"', optional=True).also(same=("silent",))

ENTRIES = [
    Entry(
        "check_symmetry",
        "hf.check_symmetry({*}, copies=19, folds=2).function",
        {
            "x": array(_X, lead=True),
            "y": array(_Y, width=False, lead=True).also("np.ones(24)", "['a'] * 24", "['a'] * 23"),
            "on_x": rep("hf.natural_rep(hf.Cyclic(2))").also(
                '"permute"', '"permute 3 columns"', fine=('"signs of 2 columns"',)
            ),
            "on_y": rep("hf.trivial_rep(hf.Cyclic(2))", optional=True),
            "key": key(),
            "tolerance": number("0.015625", above=0, below=1),
            "level": number("0.0625", above=0, below=0.5),
            "target": choice('"auto"').also(fine=('"classes"',), same=('"numbers"',)),
            "subgroups": flag("False"),
            "progress": _QUIET,
            "fault": choice('"none"').also(fine=('"bandwidth of the data"', '"residuals of the training rows"')),
        },
    ),
    Entry(
        "check_symmetry",
        f"hf.check_symmetry({_X}, {_Y}, hf.natural_rep(hf.Cyclic(2)), key=0, {{*}}).function",
        {"copies": count("19", least=19, most=9999), "folds": count("2", least=2)},
    ),
    Entry(
        "search_symmetry",
        "hf.practice.search_symmetry({*}, ties=False).smallest",
        {
            "x": array(_ROWS, width=False, lead=True),
            "y": array(f"np.sum({_ROWS} ** 2, axis=1)", width=False, lead=True).also("np.ones(48)", "['a'] * 48"),
            "key": key(),
            "tolerance": number("0.015625", above=0, below=1),
            "level": number("0.0625", above=0, below=0.5),
            "copies": count("19", least=19, most=9999),
            "progress": _QUIET,
        },
    ),
    Entry(
        "search_symmetry",
        f"hf.practice.search_symmetry({_ROWS}, {_ROWS}[:, 0], key=0, copies=19, {{*}}).smallest",
        {"ties": one_of("False", "3.0", '"no"', optional=True)},
    ),
    Entry(
        "SymmetrySearch", f"str(hf.practice.search_symmetry({_ROWS}, {_ROWS}[:, 0], key=0, copies=19, ties=False))", {}
    ),
    Entry("records", "len(hf.records({*}))", {"folder": one_of("finished", '"/nowhere"', "3.0", '"/dev/null"')}),
    Entry("SymmetryCheck", f"str({_FOUND})", {}),
    Entry("SubgroupLattice", f"str({_FOUND}.lattice)", {}),
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
