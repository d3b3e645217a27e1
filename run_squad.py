"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, and answers questions."""

from albert_tf.cli import run_squad

if __name__ == "__main__":
    run_squad.main()
