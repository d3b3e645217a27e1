"""Builds the signatures of exported models from text and ids. Floor 4."""
