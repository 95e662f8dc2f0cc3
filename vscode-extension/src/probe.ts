/** Asking a Python, in a short child process, whether sollens is installed there. */

import { execFile } from "node:child_process";
import * as os from "node:os";

/** Runs on any Python 3; drops the current folder from sys.path so that no file lying there is imported. */
export const PROBE_SOURCE = `
import json, sys
sys.path[:] = [p for p in sys.path if p]
from importlib import util
try:
    found = util.find_spec("sollens.analysis.cli") is not None
except ImportError:
    found = False
print("sollens-probe:" + json.dumps({"python": list(sys.version_info[:2]), "sollens": found}))
`;

/** What a Python said about itself. */
export interface Probe {
  /** such as "3.11"; undefined when it did not answer */
  readonly pythonVersion: string | undefined;
  readonly hasSollens: boolean;
  /** why there is no answer, for the log */
  readonly failure?: string;
}

const PROBE_TIMEOUT_MS = 15_000;

export function probe(interpreter: string): Promise<Probe> {
  return new Promise((resolve) => {
    const options = { timeout: PROBE_TIMEOUT_MS, killSignal: "SIGKILL" as const, cwd: os.homedir(), windowsHide: true, maxBuffer: 1 << 20 };
    const child = execFile(interpreter, ["-c", PROBE_SOURCE], options, (error, stdout) => {
      const failure = error?.killed ? `no answer within ${PROBE_TIMEOUT_MS / 1000} s` : error?.message;
      resolve(parseProbe(stdout, failure));
    });
    child.stdin?.end();
  });
}

/** The answer in `stdout`, whatever else was printed there (sitecustomize, conda notices). */
export function parseProbe(stdout: string, failure: string | undefined): Probe {
  const line = stdout.split("\n").find((text) => text.startsWith("sollens-probe:"));
  if (line === undefined) {
    return { pythonVersion: undefined, hasSollens: false, failure: failure ?? "expected the probe's answer, found none" };
  }
  const answer = JSON.parse(line.slice("sollens-probe:".length)) as { python: number[]; sollens: boolean };
  return { pythonVersion: answer.python.join("."), hasSollens: answer.sollens };
}
