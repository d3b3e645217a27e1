"""What a run computes on: devices of one or several machines. Floor 3."""
