"""What a particle does: units and the networks they average to."""
