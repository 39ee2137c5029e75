"""Distances and divergences between clouds, and how far a cloud is from invariant."""

# Between two clouds: exact transport, its bounds for large clouds, entropic transport, slices, kernels.
from haarflow.measures.bounds import Bounds as Bounds
from haarflow.measures.bounds import w2_bounds as w2_bounds
from haarflow.measures.distances import mmd_squared as mmd_squared
from haarflow.measures.distances import rmd as rmd
from haarflow.measures.distances import sinkhorn as sinkhorn
from haarflow.measures.distances import sliced as sliced
from haarflow.measures.distances import w1 as w1
from haarflow.measures.distances import w2 as w2

# Under a group that cannot be listed: bounds that hold for all of it, and estimates by draws.
from haarflow.measures.group_bounds import Estimate as Estimate
from haarflow.measures.group_bounds import mmd_squared_draws as mmd_squared_draws
from haarflow.measures.group_bounds import quotient_bounds as quotient_bounds

# From a cloud to its symmetrisation (weak invariance, WI) and to the fixed space (strong invariance, SI).
from haarflow.measures.invariance import circle_correction as circle_correction
from haarflow.measures.invariance import orbit_mmd_squared as orbit_mmd_squared
from haarflow.measures.invariance import si_distance as si_distance
from haarflow.measures.invariance import si_rmd as si_rmd
from haarflow.measures.invariance import wi_bounds as wi_bounds
from haarflow.measures.invariance import wi_distance as wi_distance
from haarflow.measures.invariance import wi_rmd as wi_rmd

# Groups beyond representations, for the keyword `under`.
from haarflow.measures.isometries import Isometries as Isometries
from haarflow.measures.isometries import Shifts as Shifts
