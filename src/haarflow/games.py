"""Games of several players: payoffs, and the field along which one descends and the other ascends."""

from haarflow.dynamics.games import DescentAscent as DescentAscent
from haarflow.dynamics.games import ExpectedPayoff as ExpectedPayoff
from haarflow.dynamics.games import Payoff as Payoff
