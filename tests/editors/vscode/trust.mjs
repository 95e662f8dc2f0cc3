// Nothing of an untrusted folder is run; a missing server is said, and installed only from a checkout. See README.md.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { open, python, repository } from "./workbench.mjs";

const shots = path.resolve(process.argv[2] ?? "shots");
const evidence = path.join(fs.mkdtempSync("/tmp/sollens-trust-"), "run.log");
const wrapper = (name) => `#!/bin/sh\necho "${name} $@" >> ${evidence}\nexec ${python} "$@"\n`;
const ran = () => (fs.existsSync(evidence) ? fs.readFileSync(evidence, "utf8") : "");
const example = { "attention.py": fs.readFileSync(path.join(repository, "examples/attention.py"), "utf8") };

async function untrustedFolder() {
  const vscode = await open({
    files: {
      ...example,
      "conftest.py": `open(${JSON.stringify(evidence)}, "a").write("conftest")\n`,
      ".vscode/settings.json": JSON.stringify({ "sollens.interpreter": "${workspaceFolder}/evil/python", "sollens.server.path": "${workspaceFolder}/evil/python" }),
      "evil/python": wrapper("setting"),
      ".venv/bin/python": wrapper("venv"),
    },
    file: "attention.py",
    machine: { "sollens.interpreter": python },
    trust: false,
    shots,
  });
  try {
    for (const name of ["evil/python", ".venv/bin/python"]) fs.chmodSync(path.join(vscode.folder, name), 0o755);
    await vscode.eventually("the status says so", async () => (await vscode.status()).tooltip.includes("not trusted"));
    await vscode.save();
    await vscode.page.waitForTimeout(3000);
    assert.equal(await vscode.hint("class Model"), undefined);
    assert.equal(ran(), "");
    await vscode.shot("untrusted");
    fs.rmSync(path.join(vscode.folder, ".vscode"), { recursive: true });
    await vscode.command("Workspaces: Manage Workspace Trust");
    const button = vscode.page.locator(".workspace-trust-editor .monaco-button", { hasText: /^Trust$/ }).first();
    await button.waitFor();
    await vscode.page.waitForTimeout(500);
    await button.click();
    await vscode.openFile("attention.py");
    await vscode.eventually("hints once it is trusted", () => vscode.hint("class Model"));
  } finally {
    await vscode.close();
  }
  return vscode.home;
}

async function missingServer() {
  const bare = process.env.BARE_PYTHON ?? "/usr/bin/python3";
  const vscode = await open({ files: example, file: "attention.py", machine: { "sollens.interpreter": bare }, shots });
  try {
    await vscode.eventually("the missing server is said", async () => (await vscode.toasts()).includes("expected the sollens server"));
    await vscode.page.waitForTimeout(500);
    await vscode.shot("no-server");
    await install(vscode, vscode.folder);
    await vscode.eventually("another folder is refused", async () => (await vscode.toasts()).includes("expected a checkout of sollens"));
    await vscode.shot("no-checkout");
    fs.writeFileSync(path.join(vscode.home, "data/Machine/settings.json"), JSON.stringify({ "sollens.interpreter": python }));
    await vscode.eventually("the server runs once another interpreter is chosen", async () => (await vscode.status()).text.includes("H100"));
    await vscode.eventually("nothing says any more that it is missing", async () => (await vscode.toasts()) === "");
    fs.writeFileSync(path.join(vscode.home, "data/Machine/settings.json"), JSON.stringify({ "sollens.interpreter": bare }));
    await vscode.eventually("the missing server is said again", async () => (await vscode.toasts()).includes("expected the sollens server"));
    if (process.env.CHECKOUT !== undefined) {
      await install(vscode, process.env.CHECKOUT);
      await vscode.eventually("the server runs once installed", async () => (await vscode.status()).text.includes("H100"), 300_000);
      await vscode.page.waitForTimeout(1000);
      await vscode.shot("installed");
    }
  } finally {
    await vscode.close();
  }
  return vscode.home;
}

async function install(vscode, folder) {
  await vscode.command("sollens: Install Server from a Checkout");
  const dialog = vscode.page.locator(".quick-input-widget", { hasText: "choose your checkout" });
  await dialog.waitFor();
  await dialog.locator("input").fill(folder);
  // The dialog takes Enter once it has looked at the path.
  await vscode.quietly("the folder is taken", async () => {
    if (!(await dialog.isVisible())) return true;
    await vscode.page.keyboard.press("Enter");
    await vscode.page.waitForTimeout(1000);
    return !(await dialog.isVisible());
  });
}

let status = 1;
try {
  for (const scenario of [untrustedFolder, missingServer]) {
    const home = await scenario();
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
  status = 0;
} catch (error) {
  console.error(error);
}
process.exit(status);
