"""Scores. Floor 1: plain Python, no TensorFlow."""
