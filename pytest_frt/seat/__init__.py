"""Seats: discovery, calibration, binding, swapping, guarding and counting."""
