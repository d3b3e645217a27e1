"""The commands: flags -> config -> one call of the library.

Floor 8, the only folder that knows command-line flags. One file a command; the
scripts in the root folder and the installed commands (`albert-run-pretraining`
and so on) call its `main`.

Importing a command does not import TensorFlow, so that `--help` and flag errors
answer at once; the parts that need it are imported when the flags are known to
be good.
"""
