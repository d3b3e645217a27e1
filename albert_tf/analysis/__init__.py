"""Figures of the paper from any checkpoint, as commands. Floor 8."""
