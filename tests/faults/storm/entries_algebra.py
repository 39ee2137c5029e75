"""Right calls of what acts: groups, representations, and their methods."""

from bend import FINE, LATE, array, choice, count, function, group, key, rep, thing
from entry import Entry, made, of

_SIZED = ["Cyclic", "PlanarRotations", "Dihedral", "Symmetric", "Alternating", "Signs", "Hyperoctahedral", "Trivial"]
_CIRCLES = ["Orthogonal", "SpecialOrthogonal"]
_TURN = "np.array([[0.0, -1.0], [1.0, 0.0]])"
_ROWS = "np.array([[0.5, 1.0], [2.0, -1.0]])"
_SWAPPED = "np.array([[0.0, 1.0], [1.0, 0.0]])"

ENTRIES = [
    *(entry for name in _SIZED + _CIRCLES for entry in made(name, "{}.generators()", n=count("3", huge=FINE))),
    Entry("Icosahedral", "hf.Icosahedral().elements()", {}),
    Entry(
        "Matrices",
        "hf.Matrices({*}).order",
        {
            "generators": array(f"[{_TURN}]", rows=False, whole=True).also("[np.eye(2) * 2.0]", "[np.ones((2, 3))]"),
            "limit": count("100", huge=FINE).also("2"),
        },
    ),
    Entry(
        "Permutations",
        "hf.Permutations({*}).order",
        {
            "generators": array("np.array([[1, 2, 0]])", rows=False).also(
                "[(0, 0, 1)]",
                "[(1, 2, 3)]",
                "[1, 2, 0]",
                "[(1.5, 2.0, 0.0)]",
                same=("[(1, 2, 0)]", "[[1.0, 2.0, 0.0]]"),
            )
        },
    ),
    # methods of groups, finite and not
    Entry("Group.haar", "hf.SpecialOrthogonal(3).haar({*})", {"key": key(), "n": count("2", least=0)}),
    Entry("Finite.haar", "hf.Dihedral(3).haar({*})", {"key": key(), "n": count("2", least=0)}),
    Entry("Symmetric.haar", "hf.Symmetric(3).haar({*})", {"key": key(), "n": count("2", least=0)}),
    Entry("Group.draw", "hf.SpecialOrthogonal(3).draw({*}).matrices()", {"key": key(), "n": count("2", least=0)}),
    Entry("Finite.draw", "hf.Symmetric(3).draw({*}).matrices()", {"key": key(), "n": count("2", least=0)}),
    Entry("Group.classes", "hf.SpecialOrthogonal(3).classes({*})", {"degree": count("2", least=0)}),
    Entry("Group.__mul__", "group * {other}", {"other": group("hf.Signs(1)")}),
    Entry("SpecialOrthogonal.grid", "hf.SpecialOrthogonal(2).grid({*})", {"n": count("4")}),
    Entry("Orthogonal.grid", "hf.Orthogonal(2).grid({*})", {"n": count("4")}),
    Entry("Finite.elements", "hf.Symmetric(3).elements()", {}),
    Entry(
        "Finite.index",
        "hf.Cyclic(2).index({*})",
        {"g": array(_SWAPPED, whole=True).also("np.ones((2, 2))", "np.diag([1.0, -1.0])")},
    ),
    # representations
    of("natural_rep", group=group("group")),
    of("trivial_rep", group=group("group"), k=count("2", huge=FINE)),
    Entry("regular_rep", "hf.regular_rep({*}).matrices()", {"group": group("hf.Cyclic(3)", finite=True)}),
    Entry("direct_product", "hf.direct_product({*}).generators()", {"a": group("group"), "b": group("hf.Signs(1)")}),
    Entry(
        "lift",
        "hf.extend.lift({*})(np.eye(3))",
        {
            "rep": rep("swap", dim=False),
            "group": group("hf.Cyclic(2) * hf.Signs(1)").also("hf.Cyclic(2)", "hf.Signs(1) * hf.Cyclic(2)"),
            "side": count("0", least=0, most=1),
        },
    ),
    Entry("character_dimension", "hf.extend.character_dimension({*})", {"rep": rep("swap", shared=False, dim=False)}),
    Entry(
        "image_rep",
        "hf.image_rep({*}).matrices()",
        {
            "group": group("hf.Dihedral(4)", finite=True).also("hf.PlanarRotations(3)", "hf.Cyclic(3)"),
            "h": count("3"),
            "w": count("3"),
            "channels": count("2", huge=LATE),
        },
    ),
    Entry(
        "image_rep",
        "hf.image_rep({*}).apply(np.eye(5), np.arange(12.0))",
        {
            "group": choice('"translations"').also('"dihedral"', "hf.Cyclic(3) * hf.Cyclic(2)"),
            "h": count("2").also("3"),
            "w": count("3").also("2"),
            "channels": count("2").also("3"),
        },
    ),
    Entry(
        "point_set",
        "hf.point_set({*}).matrices()",
        {
            "group": group("hf.Symmetric(3)").also("hf.Signs(3)", "hf.PlanarRotations(3)", "hf.SpecialOrthogonal(3)"),
            "columns": count("2", huge=LATE),
        },
    ),
    Entry(
        "represent",
        "hf.represent({*}).matrices()",
        {
            "group": group("hf.Cyclic(2)").also("hf.Cyclic(3)"),
            "function": function(
                "lambda g: g",
                "lambda g: g[:1]",
                "lambda g: 2 * g",
                "lambda g: 'three'",
                "lambda g: None",
                "lambda g: g + np.nan",
            ),
            "dim": count("2").also("3"),
        },
    ),
    Entry(
        "represent",
        "hf.represent(group, {*}).matrices()",
        {"elements": array(f"np.array([np.eye(2), {_SWAPPED}])", whole=True).also("np.ones((2, 2, 2))")},
    ),
    Entry(
        "represent",
        "hf.represent(group, {*}).matrices()",
        {"generators": array(f"np.array([{_SWAPPED}])", whole=True).also("np.ones((1, 2, 2))", f"[{_TURN}]")},
    ),
    Entry(
        "permutation_rep",
        "hf.permutation_rep({*}).matrices()",
        {
            "group": group("hf.Cyclic(2)", finite=True).also("hf.Cyclic(3)"),
            "points": array("np.eye(2)", rows=False, whole=True).also(
                "[[1.0, 0.0], [0.0, 2.0]]", "[[1.0, 0.0], [1.0, 0.0]]"
            ),
        },
    ),
    Entry(
        "permutation_rep",
        "hf.permutation_rep(group, {*}).matrices()",
        {
            "elements": array("[(0, 1, 2), (1, 0, 2)]", width=False).also(
                "[(0, 0, 1), (0, 1, 2)]", "[(0.5, 1.0), (1.0, 0.5)]"
            )
        },
    ),
    Entry(
        "permutation_rep",
        "hf.permutation_rep(group, {*}).matrices()",
        {"generators": array("[(1, 0, 2)]", width=False).also("[(1, 2, 0)]", "[(0, 0, 1)]")},
    ),
    # methods of representations
    Entry("Rep.__call__", "hf.regular_rep(group)({*})", {"g": array(_SWAPPED, whole=True).also("np.ones((2, 2))")}),
    Entry("Rep.__call__", "swap({*})", {"g": array(_SWAPPED, whole=True)}),
    Entry(
        "Rep.apply",
        "swap.apply({*})",
        {
            "g": array(_SWAPPED, whole=True),
            "z": array("np.array([[0.5, 1.0], [2.0, -1.0]])", rows=False, lead=True, empty=FINE),
        },
    ),
    Entry(
        "Rep.apply",
        "hf.regular_rep(group).apply({*})",
        {
            "g": array(_SWAPPED, whole=True),
            "z": array("np.array([[0.5, 1.0], [2.0, -1.0]])", rows=False, lead=True, empty=FINE),
        },
    ),
    Entry("Rep.character", "swap.character({*})", {"g": array(_SWAPPED, whole=True)}),
    Entry("Rep.signed", "swap.signed({*})", {"g": array(_SWAPPED, whole=True)}),
    Entry("Rep.permutation", "swap.permutation({*})", {"g": array(_SWAPPED, whole=True).also("np.diag([1.0, -1.0])")}),
    Entry(
        "Rep.derivative",
        "hf.natural_rep(circle).derivative({*})",
        {"a": array("np.array([[0.0, -1.0], [1.0, 0.0]])", whole=True)},
    ),
    Entry(
        "Rep.project",
        "swap.project({*})",
        {"z": array("np.array([[0.5, 1.0], [2.0, -1.0]])", rows=False, lead=True, empty=FINE)},
    ),
    Entry(
        "Rep.action",
        "swap.action({*}).matrices()",
        {
            "elements": array(f"np.array([{_SWAPPED}])", rows=False, whole=True, optional=True).also(
                "np.ones((1, 2, 2))",
                "hf.Symmetric(3).draw(0, 2)",
                "hf.Signs(2).draw(0, 9)",
                same=("swap.action().pick(1)",),
            )
        },
    ),
    Entry("Action.apply", "swap.action().apply({*})", {"z": array(_ROWS, rows=False, lead=True, empty=FINE)}),
    Entry("Action.apply_each", "swap.action().apply_each({*})", {"z": array(_ROWS, lead=True)}),
    Entry(
        "Action.pick",
        "swap.action().pick({*}).matrices()",
        {"places": count("1", least=0, most=1, rows=True).also("[0, 2]", "[[0]]", "[0.5]", same=("[1]",))},
    ),
    Entry("Action.draw", "swap.action().draw({*}).matrices()", {"key": key(), "n": count("2", least=0)}),
    Entry(
        "Action.__matmul__",
        "(swap.action() @ {other}).matrices()",
        {
            "other": thing(
                "swap.action()", "swap.action().pick(0)", "hf.natural_rep(hf.Cyclic(3)).action().pick([0, 1])"
            )
        },
    ),
    Entry("Rep.matrices", "swap.matrices()", {}),
    Entry("Rep.orbits", "swap.orbits()", {}),
    Entry("Rep.fixed_basis", "swap.fixed_basis()", {}),
    Entry("Rep.fixed_projector", "swap.fixed_projector()", {}),
    Entry("Rep.hom", "swap.hom({*})", {"other": rep("still", dim=False)}),
    Entry("Rep.__add__", "swap + {other}", {"other": rep("still", dim=False)}),
    Entry("Rep.__mul__", "swap * {other}", {"other": rep("still", dim=False, times=True)}),
    Entry("Rep.__rmul__", "{times} * swap", {"times": count("2", huge=FINE)}),
    Entry("Rep.__pow__", "swap ** {power}", {"power": count("2")}),
]
