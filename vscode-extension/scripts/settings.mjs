// How the server's settings become the manifest's: pure functions, tested in test/settings.test.ts.
import { isDeepStrictEqual } from "node:util";

/** Settings that the editor's side alone reads; the server may describe them too, and then its words win. */
const CLIENT_SETTINGS = {
  "sollens.server.path": {
    type: "string",
    default: "",
    scope: "machine-overridable",
    markdownDescription: "The `sollens` executable. Empty: sollens in the chosen interpreter, else `sollens` on PATH.",
  },
  "sollens.trace.server": {
    type: "string",
    enum: ["off", "messages", "verbose"],
    default: "off",
    scope: "window",
    markdownDescription:
      "How much of the messages between editor and server goes to the output channel while the channel's level is Trace (*Developer: Set Log Level*).",
  },
};

/** Settings that name a program to run: a workspace that is not trusted must not choose them. */
const ALWAYS_RESTRICTED = ["sollens.interpreter", "sollens.server.path"];

/** The server's output as properties; throws, saying what was expected and found, when it is something else. */
export function parseSettings(text) {
  const properties = JSON.parse(text);
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(properties)) throw new Error(`expected an object of settings, found ${text.slice(0, 80)}`);
  for (const [key, property] of Object.entries(properties)) {
    if (!key.startsWith("sollens.")) throw new Error(`expected settings named sollens.*, found ${key}`);
    if (!isObject(property) || !("default" in property)) throw new Error(`expected a property with a default for ${key}, found ${JSON.stringify(property)}`);
  }
  return properties;
}

/** The manifest with these settings, and the names of what changed in it. */
export function manifestWith(manifest, serverSettings) {
  const properties = {};
  const restricted = new Set(ALWAYS_RESTRICTED);
  for (const [key, { restricted: isRestricted, ...property }] of Object.entries({ ...CLIENT_SETTINGS, ...serverSettings })) {
    if (isRestricted) restricted.add(key);
    properties[key] = property;
  }
  for (const key of ALWAYS_RESTRICTED) {
    if (!(key in properties)) throw new Error(`expected the server to describe ${key}, found no such setting`);
  }
  const ordered = Object.fromEntries([
    ...Object.keys(serverSettings).map((key) => [key, properties[key]]),
    ...Object.entries(properties).filter(([key]) => !(key in serverSettings)),
  ]);

  const next = structuredClone(manifest);
  const old = manifest.contributes.configuration.properties;
  next.contributes.configuration.properties = ordered;
  next.capabilities.untrustedWorkspaces.restrictedConfigurations = [...restricted].sort();

  const keys = [...new Set([...Object.keys(old), ...Object.keys(ordered)])];
  const changed = keys.filter((key) => !isDeepStrictEqual(old[key], ordered[key]));
  const sameOrder = isDeepStrictEqual(Object.keys(old), Object.keys(ordered));
  if (changed.length === 0 && !sameOrder) changed.push("order of settings");
  const wasRestricted = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  if (!isDeepStrictEqual(wasRestricted, [...restricted].sort())) changed.push("restrictedConfigurations");
  return { manifest: next, changed };
}
