// The pictures of the documentation: node screenshots.mjs [FOLDER]. See README.md.
import fs from "node:fs";
import path from "node:path";
import { open, python, repository } from "./workbench.mjs";

const folder = path.resolve(process.argv[2] ?? path.join(repository, "docs/images"));
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
