"""The same, faster: fused forms, blocks, layouts and noise, each tested equal to the formula it stands for."""
