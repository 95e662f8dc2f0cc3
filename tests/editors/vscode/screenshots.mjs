// The pictures of the documentation and of the extension: node screenshots.mjs [SHOTS OF e2e.mjs light]. See README.md.
import fs from "node:fs";
import path from "node:path";
import { open, python, repository } from "./workbench.mjs";

const folder = path.join(repository, "docs/images");
const media = path.join(repository, "vscode-extension/media");
// What the test of the workbench took: name there, name in the documentation, whether the walkthrough shows it as well.
const TAKEN = [
  ["2-hover", "hints", true], ["3-hover-total", "findings", false], ["7-report", "report", true], ["8-hardware", "hardware", true],
  ["9-status", "status", true], ["11-graph", "graph", false], ["13-measured", "measured", false], ["15-actions", "pragma", true],
];
const shots = process.argv[2] === undefined ? undefined : path.resolve(process.argv[2]);
if (shots !== undefined) {
  fs.mkdirSync(media, { recursive: true });
  for (const [taken, name, isInWalkthrough] of TAKEN) {
    fs.copyFileSync(path.join(shots, `${taken}.png`), path.join(folder, `${name}.png`));
    if (isInWalkthrough) fs.copyFileSync(path.join(shots, `${taken}.png`), path.join(media, `${name}.png`));
  }
  process.exit(0);
}
const files = { "attention.py": fs.readFileSync(path.join(repository, "examples/attention.py"), "utf8") };

for (const [name, theme] of [["screenshot", "Default Light Modern"], ["screenshot-dark", "Default Dark Modern"]]) {
  const vscode = await open({
    files,
    file: "attention.py",
    settings: { "workbench.colorTheme": theme, "editor.hover.above": false, "workbench.activityBar.location": "hidden", "breadcrumbs.enabled": false },
    machine: { "sollens.interpreter": python },
    shots: folder,
    size: { width: 1120, height: 800 },
    scale: 1.5,
  });
  try {
    await vscode.page.keyboard.press("Control+b");
    await vscode.eventually("validated hint", async () => {
      const hint = await vscode.hint("class Model");
      return hint && !hint.endsWith("?") && hint;
    }, 180_000);
    await vscode.page.waitForTimeout(1000);
    await vscode.hover("return self.out");
    await vscode.shot(name);
  } finally {
    await vscode.close();
    fs.rmSync(vscode.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}
