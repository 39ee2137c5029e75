"""Closed forms and reduced equations to compare with: what a flow or a risk is where mathematics can say it."""

# How far n particles are from their limit.
from haarflow.dynamics.fluctuations import quadratic_fluctuation as quadratic_fluctuation
from haarflow.dynamics.fluctuations import quadratic_monte_carlo as quadratic_monte_carlo
from haarflow.dynamics.fluctuations import random_feature_fluctuation as random_feature_fluctuation

# Energies whose flow is known: quadratic units, Gaussians, replicators, random features.
from haarflow.dynamics.oracles import QuadraticEnergy as QuadraticEnergy
from haarflow.dynamics.oracles import QuadraticRisk as QuadraticRisk
from haarflow.dynamics.oracles import gaussian_flow as gaussian_flow
from haarflow.dynamics.oracles import quadratic_descent as quadratic_descent
from haarflow.dynamics.oracles import quadratic_flow as quadratic_flow
from haarflow.dynamics.oracles import quadratic_map as quadratic_map
from haarflow.dynamics.oracles import random_feature_flow as random_feature_flow
from haarflow.dynamics.oracles import replicator as replicator

# Fewer coordinates: the reduced equations of one neuron and of two Gaussians.
from haarflow.dynamics.reduced import best_norm as best_norm
from haarflow.dynamics.reduced import radial_risk as radial_risk
from haarflow.dynamics.reduced import radial_unit as radial_unit
from haarflow.dynamics.reduced import ramp_average as ramp_average
from haarflow.dynamics.reduced import reduced_risk as reduced_risk
from haarflow.dynamics.reduced import reduced_start as reduced_start

# Fewer particles and samples: one of each orbit.
from haarflow.dynamics.reduction import reduce_by_orbits as reduce_by_orbits
from haarflow.learning.data import TwoGaussians as TwoGaussians
from haarflow.learning.orbit_samples import fold as fold

# ReLU networks integrated exactly over the sphere.
from haarflow.learning.sphere import ReluLimit as ReluLimit
from haarflow.learning.sphere import ReluRisk as ReluRisk
from haarflow.learning.sphere import gegenbauer_rule as gegenbauer_rule
from haarflow.learning.sphere import relu_coordinates as relu_coordinates
from haarflow.learning.sphere import relu_distance as relu_distance
from haarflow.learning.sphere import relu_kernel as relu_kernel
from haarflow.learning.sphere import relu_split as relu_split

# Depth separation: what one direction holds of a function that one layer more is.
from haarflow.models.depth_separation import coordinate_energy as coordinate_energy
from haarflow.models.depth_separation import least_norm as least_norm
from haarflow.models.depth_separation import oscillating_unit as oscillating_unit
from haarflow.models.depth_separation import oscillation as oscillation
from haarflow.models.depth_separation import ridge_energy as ridge_energy
