"""Pages that an editor or a browser shows: the report with its roofline, and the einsum graph.

Each is one HTML document that loads nothing: its style and its script stand in it, and its own policy forbids the rest.
Texts from the user's file are escaped, and no number is formatted here.
"""
