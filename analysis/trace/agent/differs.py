# pyright: basic
"""The end of a candidate in the search for a twin."""


class Differs(Exception):
    """A candidate is not the same program: where and how."""
