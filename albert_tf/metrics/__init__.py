"""Computes scores with NumPy, scikit-learn and SciPy. Floor 1."""
