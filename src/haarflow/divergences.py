"""Divergences in variational form, with the witness that attains each; under a group, by invariant discriminators."""

from haarflow.measures.discriminators import Features as Features
from haarflow.measures.discriminators import KernelBall as KernelBall
from haarflow.measures.discriminators import Lipschitz as Lipschitz
from haarflow.measures.divergences import f_divergence as f_divergence
from haarflow.measures.divergences import ipm as ipm
from haarflow.measures.divergences import lip_alpha as lip_alpha
from haarflow.measures.witnesses import Divergence as Divergence
from haarflow.practice.neural_divergences import NeuralDivergence as NeuralDivergence
from haarflow.practice.neural_divergences import neural_divergence as neural_divergence
