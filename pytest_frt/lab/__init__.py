"""The processes that run untrusted code, and the evidence they leave."""
