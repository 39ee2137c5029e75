"""What an energy of clouds says: its first variation, its dissipation, its minimiser and how far one is from it."""

# Along a flow.
from haarflow.dynamics.energy_rates import dissipation as dissipation
from haarflow.dynamics.energy_rates import weak_form_rate as weak_form_rate

# At a minimiser.
from haarflow.dynamics.optimality import first_variation as first_variation
from haarflow.dynamics.optimality import optimality_gap as optimality_gap
from haarflow.dynamics.optimality import polish as polish

# Energies of one-body and pair potentials, and a risk as one of them.
from haarflow.dynamics.pairwise import Pairwise as Pairwise
from haarflow.dynamics.pairwise import pairwise as pairwise
from haarflow.dynamics.pairwise import sampling_excess as sampling_excess

# The best weights on given atoms, by a certified convex program.
from haarflow.learning.optima import Optimum as Optimum
from haarflow.learning.optima import optimum as optimum
