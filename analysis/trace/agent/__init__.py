"""The trace agent: runs in the user's interpreter under the private name `_sollens_trace`, standard library and torch only.

`boot.py` loads it; nothing of the analysis imports it, and it imports nothing of ours but `schema`.
"""
