"""The command `python -m albert_tf.compare`. Floor 11."""
