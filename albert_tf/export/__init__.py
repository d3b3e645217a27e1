"""Exports a trained model as a SavedModel that takes raw text. Floor 6."""
