// A real VS Code workbench in a headless Chromium, with the packaged extension, on a folder of its own.
import { chromium } from "playwright-core";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const repository = fileURLToPath(new URL("../../..", import.meta.url));
export const python = process.env.SOLLENS_PYTHON ?? path.join(repository, ".venv/bin/python");
const codeServer = process.env.CODE_SERVER ?? path.join(repository, ".build/editors/code-server");
const chromiumProgram = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((file) => fs.existsSync(file));
const vsix = path.join(repository, "vscode-extension/sollens.vsix");

/** How long anything may take: far longer than it does, for a machine that is busy with other tests. */
const LIMIT_MS = 120_000;

const SETTINGS = {
  "chat.commandCenter.enabled": false,
  "chat.disableAIFeatures": true,
  "editor.minimap.enabled": false,
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "git.enabled": false,
  "security.workspace.trust.startupPrompt": "never",
  "security.workspace.trust.banner": "never",
  "telemetry.telemetryLevel": "off",
  "workbench.startupEditor": "none",
};

/**
 * Opens `file` of a folder that holds `files` (name: text). `settings` are the user's, `machine` those of the machine;
 * `trust`: whether the folder is trusted from the start. `shots`: the folder for screenshots, `size` and `scale` of their pixels.
 */
export async function open({ files, file, settings = {}, machine = {}, trust = true, shots, size = { width: 1280, height: 720 }, scale = 1 }) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "sollens-e2e-"));
  const folder = path.join(home, "project");
  const data = path.join(home, "data");
  const write = (name, text) => {
    fs.mkdirSync(path.dirname(name), { recursive: true });
    fs.writeFileSync(name, text);
  };
  for (const [name, text] of Object.entries(files)) write(path.join(folder, name), text);
  write(path.join(data, "User/settings.json"), JSON.stringify({ ...SETTINGS, ...settings }));
  write(path.join(data, "Machine/settings.json"), JSON.stringify(machine));
  fs.mkdirSync(shots, { recursive: true });

  const server = await startServer(home, data, trust);
  const context = await chromium.launchPersistentContext(path.join(home, "chromium"), {
    executablePath: chromiumProgram,
    headless: true,
    viewport: size,
    deviceScaleFactor: scale,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
      "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"],
  });
  const page = context.pages()[0];
  page.setDefaultTimeout(LIMIT_MS);
  const payload = encodeURIComponent(JSON.stringify([["openFile", `vscode-remote://127.0.0.1:${server.port}${path.join(folder, file)}`]]));
  const openedAt = Date.now();
  await page.goto(`http://127.0.0.1:${server.port}/?folder=${folder}&payload=${payload}`);
  await page.waitForSelector(".monaco-editor .view-lines .view-line", { timeout: LIMIT_MS });
  return new Workbench({ page, folder, home, shots, openedAt, server: server.pid, close: () => context.close().finally(() => server.stop()) });
}

async function startServer(home, data, trust) {
  const program = path.join(codeServer, "lib/vscode/out/server-main.js");
  const base = [program, "--accept-server-license-terms", "--server-data-dir", home, "--user-data-dir", data,
    "--extensions-dir", path.join(home, "extensions"), "--telemetry-level", "off"];
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: path.join(home, "config"), SOLLENS_CACHE_DIR: path.join(home, "cache"),
    EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: "http://127.0.0.1:9/" }) };
  execFileSync("node", [...base, "--install-extension", vsix], { env, stdio: "ignore" });
  const port = await freePort();
  const log = fs.openSync(path.join(home, "server.log"), "w");
  const args = [...base, "--host", "127.0.0.1", "--port", String(port), "--without-connection-token", ...(trust ? ["--disable-workspace-trust"] : [])];
  const child = spawn("node", args, { env, cwd: path.join(codeServer, "lib/vscode"), stdio: ["ignore", log, log], detached: true });
  const stop = () => process.kill(-child.pid, "SIGTERM");
  for (let tries = 0; tries < 1200; tries++) {
    const isUp = await fetch(`http://127.0.0.1:${port}/version`).then((answer) => answer.ok, () => false);
    if (isUp) return { port, stop, pid: child.pid };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  stop();
  throw new Error(`expected VS Code's server on port ${port}, found none; see ${home}/server.log`);
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** `text` as part of an expression, its spaces as the editor draws them. */
function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll(" ", "[ \u00a0]");
}

class Workbench {
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** Waits until `probe` returns something true, prints it, and returns it. */
  async eventually(what, probe, limitMs = LIMIT_MS) {
    const value = await this.quietly(what, probe, limitMs);
    console.log("ok  ", what, typeof value === "string" ? value : "");
    return value;
  }

  async quietly(what, probe, limitMs = LIMIT_MS) {
    for (const start = Date.now(); Date.now() - start < limitMs; ) {
      const value = await probe();
      if (value) return value;
      await this.page.waitForTimeout(20);
    }
    await this.shot("fail");
    throw new Error(`${what}: not within ${limitMs / 1000} s`);
  }

  /** A picture, once what fades in has done so. */
  async shot(name) {
    await this.page.waitForTimeout(400);
    return this.page.screenshot({ path: path.join(this.shots, `${name}.png`) });
  }

  /** The lines in view, hints included, in their order. */
  lines() {
    return this.page.evaluate(() =>
      [...document.querySelectorAll(".monaco-editor .view-lines .view-line")]
        .sort((one, other) => parseFloat(one.style.top) - parseFloat(other.style.top))
        .map((line) => line.innerText.replace(/\u00a0/g, " ")));
  }

  /** The hint behind the first line in view that holds `text`; undefined when there is none. */
  async hint(text) {
    const line = (await this.lines()).find((each) => each.includes(text));
    return line?.match(/(?:≥ [^#]*|free ?\??)$/)?.[0].trim();
  }

  async command(title) {
    await this.page.keyboard.press("F1");
    await this.page.waitForSelector(".quick-input-widget:visible");
    await this.page.keyboard.type(title, { delay: 5 });
    await this.choose(title);
  }

  /** Takes the entry with this label of the open quick pick. */
  async choose(label) {
    const rows = this.page.locator(".quick-input-list .monaco-list-row");
    const row = rows.filter({ has: this.page.locator(".label-name", { hasText: new RegExp(`^${escaped(label)}$`) }) }).first();
    await row.click();
    // What the entry does may open another list.
    await row.waitFor({ state: "hidden" });
  }

  async goTo(line, column = 1) {
    await this.page.keyboard.press("Control+g");
    await this.page.waitForSelector(".quick-input-widget:visible");
    await this.page.keyboard.type(`${line}:${column}`, { delay: 5 });
    await this.page.keyboard.press("Enter");
    await this.quietly(`cursor at ${line}:${column}`, async () => (await this.place()).includes(`Ln ${line}, Col ${column}`));
  }

  /** Through the explorer: the search of "Go to File" needs ripgrep, which is not installed. */
  async openFile(name) {
    await this.page.locator(".explorer-viewlet .monaco-list-row", { hasText: name }).dblclick();
    await this.page.waitForSelector(`.tab.active >> text=${name}`);
    await this.quietly(`text of ${name}`, async () => (await this.lines()).some((line) => line.trim() !== ""));
  }

  /** Saves, and returns when the editor has. */
  async save() {
    await this.page.keyboard.press("Control+s");
    await this.page.waitForSelector(".tab.active:not(.dirty)");
  }

  /** The frame of the webview that holds `selector`, once it is there. */
  async webview(selector) {
    let found;
    await this.quietly(`a webview with ${selector}`, async () => {
      for (const frame of this.page.frames()) {
        if (await frame.$(selector).catch(() => null)) found = frame;
      }
      return found;
    });
    return found;
  }

  /** The texts above lines, as code lenses show them. */
  async lenses() {
    return (await this.page.locator(".monaco-editor .codelens-decoration").allInnerTexts()).map((text) => text.replace(/\u00a0/g, " ").trim());
  }

  /** The hover of the first line in view that holds `text`, once it holds `expected`. */
  hover(text, expected) {
    return this.hoverOver(this.page.locator(".monaco-editor .view-line", { hasText: text }).first().locator("span span").first(), expected);
  }

  /** The hover of what `there` finds, once it holds `expected`; the pointer comes from the left, where nothing hovers. */
  async hoverOver(there, expected) {
    const shown = this.page.locator(".monaco-hover:not(.hidden)");
    for (const start = Date.now(); Date.now() - start < LIMIT_MS; ) {
      // Moved anew each time: a hover that came before the result was there does not change under a still pointer.
      await this.leave();
      // By its place and in several moves, as a hand does: one jump may pass between two redraws of the line. Along the
      // line: on a way across others, one of their hovers could open and cover it.
      const box = await there.boundingBox({ timeout: 5000 }).catch(() => null);
      if (box === null) continue;
      const height = box.y + box.height / 2;
      await this.page.mouse.move(box.x - 12, height);
      await this.page.mouse.move(box.x + box.width / 2, height, { steps: 4 });
      for (let tries = 0; tries < 50; tries++) {
        const found = (await shown.allInnerTexts()).join("\n").replace(/\u00a0/g, " ");
        if (found.includes(expected)) return found;
        await this.page.waitForTimeout(100);
      }
    }
    await this.shot("fail");
    throw new Error(`hover: expected “${expected}”, found: ${await shown.allInnerTexts()}`);
  }

  /** Takes the pointer away, and with it every hover. */
  async leave() {
    await this.page.keyboard.press("Escape");
    await this.page.mouse.move(640, 600);
    await this.page.locator(".monaco-hover:not(.hidden)").first().waitFor({ state: "hidden" });
  }

  /** "Ln 8, Col 32" */
  async place() {
    return (await this.page.locator('.statusbar-item[id="status.editor.selection"]').innerText().catch(() => "")).replace(/\u00a0/g, " ");
  }

  async status() {
    const item = this.page.locator('.statusbar-item[id*="sollens"]');
    if ((await item.count()) === 0) return { text: "", tooltip: "" };
    return {
      text: (await item.innerText()).replace(/\u00a0/g, " ").trim(),
      tooltip: (await item.locator("a").first().getAttribute("aria-label")) ?? "",
    };
  }

  /** What a click on a hover's link or a webview's row leads to. */
  async activeTab() {
    return (await this.page.locator(".editor-group-container.active .tab.active").first().innerText()).trim();
  }

  /** The processes below VS Code's server whose command line holds `text`. */
  processes(text) {
    const all = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number);
    const read = (pid, name) => {
      try {
        return fs.readFileSync(`/proc/${pid}/${name}`, "utf8");
      } catch {
        return "";
      }
    };
    const parents = new Map(all.map((pid) => [pid, Number(read(pid, "stat").replace(/^.*\) \S /s, "").split(" ")[0])]));
    const isBelow = (pid) => pid === this.server || (parents.has(pid) && isBelow(parents.get(pid)));
    return all.filter((pid) => read(pid, "cmdline").replaceAll("\0", " ").includes(text) && isBelow(pid));
  }

  async toasts() {
    return (await this.page.locator(".notification-toast").allInnerTexts()).join(" | ");
  }
}
