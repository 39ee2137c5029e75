"""What an energy of clouds says: its first variation, its dissipation, its minimiser and how far one is from it."""

# Energies of one-body and pair potentials, and a risk as one of them.
from haarflow.dynamics.limits import Pairwise as Pairwise

# Along a flow, and at a minimiser.
from haarflow.dynamics.limits import dissipation as dissipation
from haarflow.dynamics.limits import first_variation as first_variation
from haarflow.dynamics.limits import optimality_gap as optimality_gap
from haarflow.dynamics.limits import pairwise as pairwise
from haarflow.dynamics.limits import polish as polish
from haarflow.dynamics.limits import sampling_excess as sampling_excess
from haarflow.dynamics.limits import weak_form_rate as weak_form_rate

# The best weights on given atoms, by a certified convex program.
from haarflow.learning.optima import Optimum as Optimum
from haarflow.learning.optima import optimum as optimum
