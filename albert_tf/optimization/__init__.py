"""Gradients to weights. Floor 3."""
