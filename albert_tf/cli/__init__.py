"""The commands: flags -> config -> one call of the library.

Floor 10, the only folder that knows command-line flags. One file a command.
Importing one does not import TensorFlow, so that `--help` and flag errors
answer at once.
"""
