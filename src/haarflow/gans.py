"""GANs that keep a symmetry: what is trained, what is played for, and the kinds of networks; `haarflow.GAN` trains."""

# Players who move in turns, and what they play for.
from haarflow.dynamics.turns import Turns as Turns
from haarflow.learning.objectives import LipschitzAlpha as LipschitzAlpha
from haarflow.learning.objectives import Objective as Objective
from haarflow.learning.objectives import Original as Original
from haarflow.learning.objectives import Relativistic as Relativistic
from haarflow.learning.objectives import Wasserstein as Wasserstein

# The kinds of networks, and what comes of a training.
from haarflow.models.adversaries import Discriminator as Discriminator
from haarflow.models.adversaries import Generator as Generator
from haarflow.practice.fitted_gan import FittedGAN as FittedGAN
