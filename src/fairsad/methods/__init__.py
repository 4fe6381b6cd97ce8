"""The methods, one per file, all with one contract."""
