"""Implementations: one module per faster form of a structure, each with one IMPL."""
