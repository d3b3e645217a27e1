"""Exports a trained model: a SavedModel, a file of a runtime. Floor 7."""
