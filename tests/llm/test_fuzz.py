"""A sample of benchmarks/llm_fuzz.py: mutated programs do no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_mutated_programs_never_crash_hang_import_or_evaluate(tmp_path: Path) -> None:
    out = tmp_path / "fuzz.json"
    # In a process of its own: an audit hook stays for good.
    command = [sys.executable, str(ROOT / "benchmarks" / "llm_fuzz.py"), "--count", "2000", "--json", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    found = json.loads(out.read_text())
    assert found["programs"] == 2000 and found["crashes"] == 0 and not found["faults"]
    assert found["slowest_cpu_s"] < 20 and found["memory_added_MiB"] < 500
    # Mutations that always fail at the first token would show nothing.
    assert found["stages"]["agrees"] > 20 and found["stages"]["results"] > 10 and found["stages"]["meaning"] > 20
