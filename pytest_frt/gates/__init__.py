"""Gates: evidence in, verdict out."""
