"""What is learnt. Floor 4."""
