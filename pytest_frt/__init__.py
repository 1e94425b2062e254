"""Certify, seat by seat, that a faster implementation of a model region is right, runs and is a net win."""
