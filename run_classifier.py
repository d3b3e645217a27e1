"""Fine-tunes ALBERT on a task of GLUE, or on a table of your own.

See albert_tf/cli/run_classifier.py.
"""

from albert_tf.cli import run_classifier

if __name__ == "__main__":
    run_classifier.main()
