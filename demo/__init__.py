"""What `make demo` runs: a small ALBERT, from docstrings to serving."""
