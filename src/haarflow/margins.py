"""Implicit bias: linear networks, the risk and the scheme that take them to the largest margin, and that margin."""

from haarflow.dynamics.normalised import Normalised as Normalised
from haarflow.learning.margin_risks import LogExponential as LogExponential
from haarflow.models.linear_networks import DeepLinear as DeepLinear
from haarflow.models.linear_networks import Steerable as Steerable
from haarflow.practice.max_margin import MaxMargin as MaxMargin
