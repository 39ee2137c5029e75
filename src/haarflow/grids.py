"""Laws on grids in one to three dimensions: Fokker–Planck, Gibbs laws, free energies, proximal steps."""

from haarflow.dynamics.diffusion import GridPath as GridPath
from haarflow.dynamics.diffusion import fokker_planck as fokker_planck
from haarflow.dynamics.diffusion import relaxation_rate as relaxation_rate
from haarflow.dynamics.free_energies import Gibbs as Gibbs
from haarflow.dynamics.free_energies import entropy as entropy
from haarflow.dynamics.free_energies import free_energy as free_energy
from haarflow.dynamics.free_energies import gibbs as gibbs
from haarflow.dynamics.free_energies import local_gibbs as local_gibbs
from haarflow.dynamics.free_energies import relative_entropy as relative_entropy
from haarflow.dynamics.grids import Grid as Grid

# Internal energies in the place of temperature times entropy.
from haarflow.dynamics.internal_energies import ChiSquared as ChiSquared
from haarflow.dynamics.internal_energies import ConvexEnergy as ConvexEnergy
from haarflow.dynamics.internal_energies import InternalEnergy as InternalEnergy
from haarflow.dynamics.internal_energies import PorousMedium as PorousMedium

# Minimising movements (JKO) in closed form, by quantiles, by entropic transport, and mirror descent.
from haarflow.dynamics.proximal import entropic_step as entropic_step
from haarflow.dynamics.proximal import gaussian_step as gaussian_step
from haarflow.dynamics.proximal import grid_quantiles as grid_quantiles
from haarflow.dynamics.proximal import mirror_step as mirror_step
from haarflow.dynamics.proximal import quantile_energy as quantile_energy
from haarflow.dynamics.proximal import quantile_step as quantile_step
