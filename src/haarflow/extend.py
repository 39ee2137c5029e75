"""The kinds, and what one needs to write a member of one: docs/extend.md shows each in full.

Subclass a kind, give it `examples()`, and the laws, the reference and the menus find it.
"""

# What acts.
from haarflow.algebra.acting import Action as Action
from haarflow.algebra.base import Finite as Finite
from haarflow.algebra.base import Group as Group
from haarflow.algebra.characters import character_dimension as character_dimension
from haarflow.algebra.products import lift as lift

# How it moves: fields, where particles live, schemes, and the parts of a step.
from haarflow.dynamics.domains import Domain as Domain
from haarflow.dynamics.fields import Field as Field
from haarflow.dynamics.fields import Tangent as Tangent
from haarflow.dynamics.flow import Diverged as Diverged
from haarflow.dynamics.players import map_clouds as map_clouds
from haarflow.dynamics.schemes import Scheme as Scheme
from haarflow.dynamics.schemes import advance as advance
from haarflow.dynamics.schemes import streams as streams
from haarflow.fast.noise import gaussian as gaussian

# What is minimised, and over which functions.
from haarflow.learning.data import Data as Data
from haarflow.learning.functionals import Functional as Functional
from haarflow.models.networks import Network as Network
