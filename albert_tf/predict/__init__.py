"""The command `python -m albert_tf.predict`. Floor 11."""
