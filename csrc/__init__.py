"""Kernel sources, one kernel-builder project per folder."""
