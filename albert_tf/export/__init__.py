"""Exports a trained model as SavedModel, LiteRT or ONNX. Floor 7."""
