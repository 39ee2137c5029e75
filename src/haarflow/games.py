"""Games of several players: payoffs, the field along which one descends and the other ascends, and how far they are."""

# How far players are from an equilibrium.
from haarflow.dynamics.exploitability import NikaidoIsoda as NikaidoIsoda
from haarflow.dynamics.exploitability import nikaido_isoda as nikaido_isoda

# What they play.
from haarflow.dynamics.games import DescentAscent as DescentAscent
from haarflow.dynamics.games import ExpectedPayoff as ExpectedPayoff
from haarflow.dynamics.games import Payoff as Payoff
from haarflow.dynamics.payoffs import QuadraticPayoff as QuadraticPayoff

# The laws along a flow, and their averages over time.
from haarflow.dynamics.time_averages import recorded as recorded
from haarflow.dynamics.time_averages import snapshot as snapshot
from haarflow.dynamics.time_averages import time_average as time_average
