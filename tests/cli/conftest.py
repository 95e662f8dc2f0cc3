"""Shares the canned traces of the pipeline's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "pipeline"))
