"""Mutations of loop programs: what a wrong lowering rule could have written, to see whether validation notices."""
