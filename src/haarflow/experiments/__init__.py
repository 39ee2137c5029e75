"""One file per claim, found by itself."""
