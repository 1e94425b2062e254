"""Frozen types that every part shares: no behaviour beyond ids."""
