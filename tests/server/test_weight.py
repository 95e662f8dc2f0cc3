"""What the server process may hold in memory."""

import subprocess
import sys
from pathlib import Path


def test_the_server_imports_nothing_heavy_and_no_framework():
    program = "import sys, sollens.server.app; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path("/"))
    heavy = {"torch", "jax", "numba", "numpy", "islpy", "networkx", "pulp", "openai", "scipy", "rich"}
    assert heavy.isdisjoint(loaded.stdout.split())
