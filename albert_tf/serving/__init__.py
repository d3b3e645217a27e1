"""What the signatures of exported models are made of. Floor 4."""
