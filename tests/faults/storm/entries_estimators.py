"""Right calls of estimators, fitted on a few rows, and of the decision between them."""
