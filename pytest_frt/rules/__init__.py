"""Floors, bands, statistics and the folding of verdicts, pure and without torch."""
