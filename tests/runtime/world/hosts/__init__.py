"""Toy hosts."""
