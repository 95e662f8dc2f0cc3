"""Validation: the loop program is run and compared with what the original program gave on the same values."""
