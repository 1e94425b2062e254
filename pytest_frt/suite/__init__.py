"""The packaged test suite that certifies cells."""
