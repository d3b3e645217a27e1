"""The paper's experiments, each with one command: see run_experiment.py."""
