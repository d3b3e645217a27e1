"""Text to pieces and back. Floor 1: plain Python, no TensorFlow."""
