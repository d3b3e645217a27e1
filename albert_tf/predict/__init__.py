"""Floor 9: texts in, answers out, in Python and on the command line."""
