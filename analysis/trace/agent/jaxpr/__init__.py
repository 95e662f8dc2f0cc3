# pyright: basic
"""The JAX side of the trace agent: a program as a jaxpr, recorded as the trace's schema has it."""
