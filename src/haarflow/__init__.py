"""haarflow: learning with symmetry, seen through the mean-field limit."""
