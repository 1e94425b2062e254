"""The packaged suite: one item per gate of each record, one per union."""
