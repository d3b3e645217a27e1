"""Vectors of texts, by an encoder without a head."""
