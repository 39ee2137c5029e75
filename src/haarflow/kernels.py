"""Kernels that networks are or become, the models that behave like them, and the norms of function spaces."""

# Norms: F2 by degrees on the sphere, F1 of a network of neurons.
from haarflow.models.harmonics import f2_norm_squared as f2_norm_squared
from haarflow.models.harmonics import funk_hecke as funk_hecke
from haarflow.models.harmonics import harmonics as harmonics
from haarflow.models.harmonics import legendre as legendre

# Kernels and linearised models.
from haarflow.models.kernels import Linearised as Linearised
from haarflow.models.kernels import Scaled as Scaled
from haarflow.models.kernels import arc_cosine as arc_cosine
from haarflow.models.kernels import feature_kernel as feature_kernel
from haarflow.models.kernels import kernel_flow as kernel_flow
from haarflow.models.kernels import kernel_ridge as kernel_ridge
from haarflow.models.kernels import relu_beyond_linear as relu_beyond_linear
from haarflow.models.kernels import relu_tangent as relu_tangent
from haarflow.models.kernels import tangent_kernel as tangent_kernel
from haarflow.models.variation import merged_neurons as merged_neurons
from haarflow.models.variation import variation_norm as variation_norm

# Regression.
from haarflow.practice.kernel_regression import FeatureFit as FeatureFit
from haarflow.practice.kernel_regression import KernelFit as KernelFit
from haarflow.practice.kernel_regression import fit_kernel_ridge as fit_kernel_ridge
from haarflow.practice.kernel_regression import fit_random_features as fit_random_features
