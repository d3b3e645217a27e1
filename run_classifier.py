"""Fine-tunes ALBERT on a task of GLUE, or on a table of your own."""

from albert_tf.cli import run_classifier

if __name__ == "__main__":
    run_classifier.main()
