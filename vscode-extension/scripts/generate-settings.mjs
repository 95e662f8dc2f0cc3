// Rewrites contributes.configuration of package.json from the server's own settings, or with --check tells whether they drifted.
// The server prints them: python -m sollens.server.config --vscode. A property with "restricted": true is ignored in untrusted
// workspaces. Python: $SOLLENS_PYTHON, else ../.venv/bin/python.
// Exit codes: 0 done, 1 package.json drifted (--check), 2 the server's settings could not be read.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { manifestWith, parseSettings } from "./settings.mjs";

const manifestFile = fileURLToPath(new URL("../package.json", import.meta.url));
const python = process.env.SOLLENS_PYTHON || fileURLToPath(new URL("../../.venv/bin/python", import.meta.url));
const command = [python, "-m", "sollens.server.config", "--vscode"];

function readServerSettings() {
  try {
    return parseSettings(execFileSync(command[0], command.slice(1), { encoding: "utf8", timeout: 60_000, stdio: ["ignore", "pipe", "pipe"] }));
  } catch (error) {
    const found = String(error.stderr || error.message).trim().split("\n").at(-1);
    console.error(`expected the server's settings as JSON from: ${command.join(" ")}\nfound: ${found}`);
    console.error("install sollens there (pip install -e .), or name a Python that has it in SOLLENS_PYTHON");
    process.exit(2);
  }
}

const before = readFileSync(manifestFile, "utf8");
const { manifest, changed } = manifestWith(JSON.parse(before), readServerSettings());

if (changed.length === 0) {
  console.log("settings in package.json agree with the server");
} else if (process.argv.includes("--check")) {
  console.error(`expected package.json to hold the server's settings, found a difference in: ${changed.join(", ")}`);
  console.error("run: npm run settings");
  process.exit(1);
} else {
  writeFileSync(manifestFile, JSON.stringify(manifest, null, 2) + "\n");
  console.log(`settings in package.json rewritten: ${changed.join(", ")}`);
}
