"""What acts: groups and their representations."""
