"""GLUE and tables of text: examples, features, head, metrics, predictions."""
