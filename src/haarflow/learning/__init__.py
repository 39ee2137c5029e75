"""What is minimised: data, losses, risks, and the three ways to use a symmetry."""
