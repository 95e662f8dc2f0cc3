"""Runs the trace agent in the user's interpreter and asks it for traces.

    python -m sollens.analysis.trace.host FILE      the trace of a KernelBench-style file as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BOOT = Path(__file__).parent / "agent" / "boot.py"


def main(arguments: list[str]) -> int:
    """Print the trace of a file; 2 when it has none."""
    request = {"path": str(Path(arguments[0]).resolve()), "target": {"kind": "kernelbench"}}
    done = subprocess.run([sys.executable, str(BOOT), "once"], input=json.dumps(request).encode(), capture_output=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr.decode())
        return 2
    reply = json.loads(done.stdout)
    if not reply["ok"]:
        print(json.dumps(reply, indent=1), file=sys.stderr)
        return 2
    print(json.dumps(reply["trace"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
