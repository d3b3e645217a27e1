"""Outputs and answers of trained models. Floor 5."""
