"""Graphs come in: tables and links, similarity graphs, splits, downloads, generated graphs."""
