"""Pretrains ALBERT on the records of create_pretraining_data.py."""

from albert_tf.cli import run_pretraining

if __name__ == "__main__":
    run_pretraining.main()
