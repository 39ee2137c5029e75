"""Every test runs in float64, with shapes and types of the library checked at run time."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("haarflow", "beartype.beartype")
