"""Numbers to scores: plain NumPy, scikit-learn and SciPy. Floor 1."""
