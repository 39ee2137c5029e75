"""The web page: four schemes side by side, live, with the fixed space drawn in; and the same in a notebook."""
