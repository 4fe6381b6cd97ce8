"""One training loop for all methods: epochs, selection, checkpoints, progress."""
