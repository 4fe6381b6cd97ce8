"""The parts of the paper's model, one per file."""
