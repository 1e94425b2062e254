"""Entries of pytest-frt. Nothing here is executed when they are listed."""
