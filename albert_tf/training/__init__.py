"""Runs of pretraining and fine-tuning, and their one loop. Floor 8."""
