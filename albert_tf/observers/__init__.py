"""Standard callbacks of a run: log, report, model card, export. Floor 9."""
