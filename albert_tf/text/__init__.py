"""Text to tokens and back. Floor 1: plain Python, no TensorFlow."""
