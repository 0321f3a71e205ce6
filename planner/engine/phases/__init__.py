"""The six phases of a model's life, one file each."""
