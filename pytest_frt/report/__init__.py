"""Presentation of outcomes: terminal table, JSON and HTML."""
