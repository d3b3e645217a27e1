"""Multiple choice: RACE and whatever has its form. Plain Python, NumPy."""
