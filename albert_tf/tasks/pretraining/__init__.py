"""Pretraining: masked words, and the order of two segments."""
