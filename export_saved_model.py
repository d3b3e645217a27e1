"""Exports a checkpoint as a SavedModel that takes raw text, for TF Serving."""

from albert_tf.cli import export_saved_model

if __name__ == "__main__":
    export_saved_model.main()
