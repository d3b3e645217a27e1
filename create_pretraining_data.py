"""Builds pretraining records from text files.

See albert_tf/cli/create_pretraining_data.py.
"""

from albert_tf.cli import create_pretraining_data

if __name__ == "__main__":
    create_pretraining_data.main()
