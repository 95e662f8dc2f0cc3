// Bundles src/extension.ts into dist/, or with --tests every test/*.test.ts into out/test/.
import { build } from "esbuild";
import { readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tests = process.argv.includes("--tests");
const production = process.argv.includes("--production");

const shared = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  logLevel: "warning",
};

if (tests) {
  rmSync(`${root}out/test`, { recursive: true, force: true });
  const entries = readdirSync(`${root}test`).filter((name) => name.endsWith(".test.ts"));
  await build({ ...shared, entryPoints: entries.map((name) => `test/${name}`), outdir: "out/test", sourcemap: "inline" });
} else {
  rmSync(`${root}dist`, { recursive: true, force: true });
  await build({
    ...shared,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: production,
    sourcemap: production ? false : "linked",
  });
}
