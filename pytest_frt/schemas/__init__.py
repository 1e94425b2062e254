"""JSON schemas of every file format the package reads."""
