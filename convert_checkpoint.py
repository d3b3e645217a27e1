"""Converts checkpoints between the formats in use."""

from albert_tf.cli import convert_checkpoint

if __name__ == "__main__":
    convert_checkpoint.main()
