"""How it moves: fields, schemes and the one loop."""
