"""Trains vectors of texts, so that similar texts have similar vectors."""

from albert_tf.cli import run_similarity

if __name__ == "__main__":
    run_similarity.main()
