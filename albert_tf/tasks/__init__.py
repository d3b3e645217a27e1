"""What is learnt. Floor 5."""
