"""Tasks: their data, losses and answers. Floor 5."""
