"""Fine-tunes ALBERT on RACE, or on other multiple-choice questions."""

from albert_tf.cli import run_race

if __name__ == "__main__":
    run_race.main()
