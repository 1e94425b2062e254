"""The frt command."""
