"""Precision profiles, one SCHEME per module."""
