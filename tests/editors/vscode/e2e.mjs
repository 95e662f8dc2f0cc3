// What a person does with sollens in VS Code: real server, real trace agent, screenshots. See README.md.
import fs from "node:fs";
import path from "node:path";
import { open, python, repository } from "./workbench.mjs";

const shots = path.resolve(process.argv[2] ?? "shots");
const themes = { dark: "Default Dark Modern", light: "Default Light Modern" };
const theme = process.argv[3] ?? "dark";

const example = (name) => fs.readFileSync(path.join(repository, "examples", name), "utf8");
const BARE = `import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x).relu()
`;
const files = { "attention.py": example("attention.py"), "convnet.py": example("convnet.py"), "bare.py": BARE };

const vscode = await open({
  files,
  file: "attention.py",
  settings: { "workbench.colorTheme": themes[theme] },
  machine: { "sollens.interpreter": python },
  shots: path.join(shots, theme),
});
const { page } = vscode;
let status = 1;
try {
  await vscode.eventually("hint of the class", () => vscode.hint("class Model"));
  console.log("time page to first hint:", Date.now() - vscode.openedAt, "ms");
  await vscode.eventually("status names the chip", async () => (await vscode.status()).text.includes("SOL H100 SXM"));
  for (const text of ["self.qkv =", "def forward", "scores =", "weights =", "return self.out"]) {
    await vscode.eventually(`hint of ${text}`, () => vscode.hint(text));
  }
  await page.waitForTimeout(1000);
  await vscode.shot("1-hints");

  console.log(await vscode.hover("scores ="));
  await vscode.shot("2-hover");
  await page.mouse.move(640, 600);
  await page.waitForTimeout(500);
  console.log(await vscode.hover("class Model"));
  await vscode.shot("3-hover-total");
  await page.mouse.move(640, 600);
  const hint = page.locator(".monaco-editor .view-line", { hasText: "weights =" }).locator("span", { hasText: "≥" }).last();
  await hint.hover();
  await page.waitForSelector(".monaco-hover:not(.hidden)");
  await page.waitForTimeout(800);
  await vscode.shot("4-tooltip");
  await page.mouse.move(640, 600);

  // A warm save
  await page.locator(".monaco-editor .view-line", { hasText: "batch, tokens" }).first().click();
  await vscode.goTo(8, 32);
  await page.keyboard.press("Shift+End");
  const before = await vscode.hint("scores =");
  await page.keyboard.type("2048, 768, 12");
  await page.waitForTimeout(500);
  await vscode.shot("5-edited");
  const savedAt = Date.now();
  await vscode.save();
  await vscode.eventually("hint after a save", async () => {
    const now = await vscode.hint("scores =");
    return now !== before && now;
  });
  console.log("time warm save to hint:", Date.now() - savedAt, "ms");

  await page.keyboard.press("Control+Shift+m");
  await page.waitForTimeout(1000);
  await vscode.shot("6-problems");
  await page.keyboard.press("Control+Shift+m");
  await page.waitForTimeout(300);

  await vscode.command("sollens: Choose Hardware");
  await page.waitForSelector(".quick-input-list >> text=A100 SXM");
  await page.waitForTimeout(500);
  await vscode.shot("7-hardware");
  await page.keyboard.type("L4");
  await page.waitForTimeout(500);
  await page.keyboard.press("Enter");
  await vscode.eventually("status of another chip", async () => (await vscode.status()).text.includes("SOL L4"));
  await vscode.eventually("hints of another chip", async () => ((await vscode.hint("scores =")) ?? "").includes("ms"));
  await page.waitForTimeout(500);
  await vscode.shot("8-other-chip");

  await page.locator('.statusbar-item[id*="sollens"] a').hover();
  await page.waitForTimeout(1500);
  await vscode.shot("9-status");
  await page.locator('.statusbar-item[id*="sollens"] a').click();
  await page.waitForSelector(".quick-input-list >> text=Restart server");
  await page.waitForTimeout(500);
  await vscode.shot("10-menu");
  await page.keyboard.press("Escape");
  await page.mouse.move(640, 600);

  await vscode.command("sollens: Show Einsum Graph");
  await page.waitForTimeout(3000);
  await vscode.shot("11-einsum");
  await vscode.command("View: Close Editor");

  // A file without shapes
  await vscode.openFile("bare.py");
  await vscode.save();
  await page.waitForSelector(".monaco-editor .squiggly-warning, .monaco-editor .squiggly-error, .monaco-editor .squiggly-info", { timeout: 60_000 });
  await vscode.goTo(5, 8);
  await page.waitForTimeout(1500);
  await vscode.shot("12-no-shapes");
  await page.keyboard.press("Control+.");
  await page.waitForSelector(".action-widget >> text=pragma", { timeout: 20_000 });
  await page.waitForTimeout(500);
  await vscode.shot("13-actions");
  await page.keyboard.press("Enter");
  await vscode.eventually("pragma inserted", async () => (await vscode.lines()).find((line) => line.includes("# sol:")));
  await page.waitForTimeout(500);
  await vscode.save();
  await page.waitForTimeout(3000);
  await vscode.shot("14-pragma");
  await vscode.goTo(5, 1);
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("# sol: init(256), x=f32[64, 256]");
  await vscode.save();
  await vscode.eventually("hint with the pragma", () => vscode.hint("class Block"));
  await page.waitForTimeout(500);
  await vscode.shot("15-analysed");
  status = 0;
} catch (error) {
  console.error(error);
  await vscode.shot("fail");
} finally {
  await vscode.close();
  if (status === 0) fs.rmSync(vscode.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  else console.log("logs are in", vscode.home);
}
process.exit(status);
