"""Structures: the contract, the plain-torch reference and the inputs of each model region."""
