"""Floor 8: texts in, answers out, in Python and on the command line."""
