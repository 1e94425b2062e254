"""Specifications read from YAML, checked against their schemas, with digests."""
