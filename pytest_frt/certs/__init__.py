"""Statements, signatures, policy and verification of certificates, without torch."""
