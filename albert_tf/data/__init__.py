"""Text to records to batches. Floor 2."""
