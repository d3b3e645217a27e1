"""Trains a SentencePiece vocabulary on text."""

from albert_tf.cli import build_vocab

if __name__ == "__main__":
    build_vocab.main()
