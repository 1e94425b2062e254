"""A second file of the closure."""

GAIN = 2.0
