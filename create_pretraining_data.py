"""Builds pretraining records from text files."""

from albert_tf.cli import create_pretraining_data

if __name__ == "__main__":
    create_pretraining_data.main()
