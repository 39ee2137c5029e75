"""Kernels that networks are or become, and the models that behave like them."""

from haarflow.models.kernels import Linearised as Linearised
from haarflow.models.kernels import Scaled as Scaled
from haarflow.models.kernels import arc_cosine as arc_cosine
from haarflow.models.kernels import feature_kernel as feature_kernel
from haarflow.models.kernels import kernel_flow as kernel_flow
from haarflow.models.kernels import kernel_ridge as kernel_ridge
from haarflow.models.kernels import relu_beyond_linear as relu_beyond_linear
from haarflow.models.kernels import relu_tangent as relu_tangent
from haarflow.models.kernels import tangent_kernel as tangent_kernel
