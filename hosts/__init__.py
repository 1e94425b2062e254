"""Hosts: the real models that contain the structures, and how each is built and fed."""
