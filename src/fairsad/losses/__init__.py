"""The terms of the objective, one per file."""
