# pyright: basic
"""The trace agent: runs in the user's interpreter as `_sollens_trace`, on the standard library and torch.

`boot.py` loads it; nothing of the analysis imports it, and it imports nothing of ours but `schema`.
"""
