"""What flows: clouds of weighted particles and the distances between them."""
