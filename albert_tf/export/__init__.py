"""A trained model to a SavedModel that takes raw text. Floor 6."""
