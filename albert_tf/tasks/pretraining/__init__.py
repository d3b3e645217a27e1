"""What pretraining learns: masked words, and the order of two segments."""
