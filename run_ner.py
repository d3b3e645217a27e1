"""Fine-tunes ALBERT to tag words: entities, parts of speech."""

from albert_tf.cli import run_ner

if __name__ == "__main__":
    run_ner.main()
