"""The command `python -m albert_tf.explain`. Floor 11."""
