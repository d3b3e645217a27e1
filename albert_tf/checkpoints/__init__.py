"""Weights on disk. Floor 3."""
