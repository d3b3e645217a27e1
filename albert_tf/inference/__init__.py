"""Outputs and answers of trained models. Floor 6."""
