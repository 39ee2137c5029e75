"""Right calls of games: regions, payoffs, how far players are from an equilibrium, laws along a flow."""

from bend import array, choice, cloud, count, number, one_of, thing
from entry import Entry, made, of

_PART = {"width": False, "rows": False, "optional": True}
_PLAYERS = thing("strategies", "cloud", "{'x': cloud}", "{'x': 3.0, 'y': other}", "players")
_PATH = thing("recorded_path", "cloud", "hf.flow(game, hf.Euler(), players, key=key, dt=0.25, steps=1)")
_PROBE = one_of("'laws'", "'risk'", "3.0")
_STEEP = number("4.0", above=0, optional=True).also("{'x': -1.0}", fine=("{'x': 4.0, 'y': 4.0}",))

ENTRIES = [
    *made("Ball", "{}.project(jnp.asarray(atoms))", radius=number("1.0", above=0)),
    *made("Torus", "{}.project(jnp.asarray(atoms))", period=number("1.0", above=0, rows=True)),
    *made(
        "QuadraticPayoff",
        "{}(players)",
        xx=array("moments", **_PART).also("np.eye(3)", "np.ones((2, 3))"),
        xy=array("goal", **_PART).also("np.ones((3, 2))"),
        yy=array("goal", **_PART).also("np.ones((2, 3))"),
        yx2=array("moments", **_PART).also("np.ones((2, 3))"),
        lx=array("np.array([0.5, -0.25])", **_PART).also("np.ones(3)"),
        ly=array("np.array([0.25, 1.0])", **_PART).also("np.ones(3)"),
        first=one_of("'x'", "3.0", "'y'").also(late=("'z'",)),
        second=one_of("'y'", "3.0", "'x'").also(late=("'z'",)),
    ),
    Entry(
        "DescentAscent",
        "hf.games.DescentAscent(payoff, ascend='y', {*})(key, players)",
        {
            "growth": number("0.5", least=0),
            "temperature": number("0.5", least=0, optional=True),
            "reference": thing(
                "{'x': masses}", "{'x': -masses}", "masses", "{'z': masses}", "{'y': masses}", optional=True
            ),
        },
    ),
    Entry(
        "nikaido_isoda",
        "hf.games.nikaido_isoda({*})",
        {
            "game": thing("contest", "payoff", "hf.Descend(penalty)", "hf.restrict(hf.Descend(penalty), hf.Sphere())"),
            "clouds": _PLAYERS,
            "over": choice("'domain'"),
            "lipschitz": _STEEP,
            "tolerance": number("0.125", least=0),
            "points": count("64"),
        },
    ),
    Entry("NikaidoIsoda", "hf.games.nikaido_isoda(contest, strategies).value", {}),
    of("snapshot", clouds=cloud("cloud", stack=True, dim=False).also(fine=("players",))),
    of("recorded", path=_PATH, probe=_PROBE),
    of("time_average", path=_PATH, probe=_PROBE, until=number("0.25", least=0, optional=True)),
]
