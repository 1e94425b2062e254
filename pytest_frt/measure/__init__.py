"""Metrics over tensors, in pure torch."""
