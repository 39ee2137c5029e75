"""Networks on sets: sets of different sizes as rows, units on them, their norms, and what freezes their layers."""

from haarflow.dynamics.freezing import freeze_layers as freeze_layers
from haarflow.learning.set_penalties import SetPenalty as SetPenalty
from haarflow.models.set_networks import FrozenSetNeuron as FrozenSetNeuron
from haarflow.models.set_networks import SetNeuron as SetNeuron
from haarflow.models.set_networks import draw_layer as draw_layer
from haarflow.models.set_networks import draw_neurons as draw_neurons
from haarflow.models.set_networks import pack_sets as pack_sets
from haarflow.models.set_networks import set_norm as set_norm
