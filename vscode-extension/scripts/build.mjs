// Bundles src/extension.ts into dist/, or with --tests every test/*.test.ts into out/test/.
import { build } from "esbuild";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  const { metafile } = await build({
    ...shared,
    metafile: true,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: production,
    sourcemap: production ? false : "linked",
  });
  writeFileSync(`${root}dist/ThirdPartyNotices.txt`, notices(Object.keys(metafile.inputs)));
}

/** The licences of the packages whose files are in the bundle; throws when one has none. */
function notices(files) {
  const folders = files.map((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]).filter(Boolean);
  const sections = [...new Set(folders)].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${root}${folder}/package.json`, "utf8"));
    const file = readdirSync(`${root}${folder}`).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) throw new Error(`expected a licence file in ${folder}, found none`);
    return `${name} ${version} (${license})\n\n${readFileSync(`${root}${folder}/${file}`, "utf8").trim()}\n`;
  });
  return `The extension contains these packages.\n\n${sections.join(`\n${"-".repeat(80)}\n\n`)}`;
}
