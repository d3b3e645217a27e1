"""Questions about a paragraph, answered by a part of it: SQuAD."""
