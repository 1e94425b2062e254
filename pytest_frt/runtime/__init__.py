"""Attach exactly the certified seats to a model, and detach them again."""
