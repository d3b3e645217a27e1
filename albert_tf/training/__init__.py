"""The one loop. Floor 5."""
