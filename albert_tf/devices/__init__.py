"""The devices of a run, on one or several machines. Floor 3."""
