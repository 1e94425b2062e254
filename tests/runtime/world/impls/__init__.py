"""Toy impls."""
