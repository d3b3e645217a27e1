"""Heads of other packages over the pooled output, declared by one class."""
