/** What the server and this extension say to each other beyond the language server protocol. */

export const SECTION = "sollens";

/** Commands of the server (workspace/executeCommand); the client library registers them, so ours have other names. */
export const ServerCommand = {
  analyse: "sollens.server.analyse",
  listHardware: "sollens.server.listHardware",
  chooseHardware: "sollens.server.chooseHardware",
  ir: "sollens.server.ir",
  einsum: "sollens.server.einsum",
  report: "sollens.server.report",
  graph: "sollens.server.graph",
  clearCache: "sollens.server.clearCache",
} as const;

export const Notification = {
  /** server to client, with a Status */
  status: "sollens/status",
  /** client to server, with { trusted: true }, once the user trusts the workspace */
  trust: "sollens/trust",
} as const;

const SERVER_STATES = ["idle", "tracing", "analysing", "error", "untrusted"] as const;
export type ServerState = (typeof SERVER_STATES)[number];

/** What the server does just now. */
export interface Status {
  readonly state: ServerState;
  /** one sentence for the tooltip */
  readonly text: string;
  /** id of the chip, such as h100-sxm */
  readonly hardware: string;
  /** name of the chip, such as H100 SXM */
  readonly hardwareName: string;
  /** the Python that traces, or null when there is none */
  readonly interpreter: string | null;
  /** the file this is about, or null */
  readonly uri: string | null;
}

/** One chip that can be chosen. */
export interface Hardware {
  readonly id: string;
  readonly name: string;
  readonly detail: string;
  readonly description: string;
}

/** `value` as a Status; what is missing or of another type gets a harmless value, an unknown state is undefined. */
export function parseStatus(value: unknown): Status | undefined {
  const fields = asRecord(value);
  const state = SERVER_STATES.find((known) => known === fields["state"]);
  if (state === undefined) {
    return undefined;
  }
  return {
    state,
    text: asText(fields["text"]),
    hardware: asText(fields["hardware"]),
    hardwareName: asText(fields["hardwareName"]) || asText(fields["hardware"]),
    interpreter: asText(fields["interpreter"]) || null,
    uri: asText(fields["uri"]) || null,
  };
}

/** `value` as chips; entries without an id are left out. */
export function parseHardware(value: unknown): Hardware[] {
  if (!Array.isArray(value)) {
    return [];
  }
  return value
    .map(asRecord)
    .filter((fields) => asText(fields["id"]) !== "")
    .map((fields) => ({
      id: asText(fields["id"]),
      name: asText(fields["name"]) || asText(fields["id"]),
      detail: asText(fields["detail"]),
      description: asText(fields["description"]),
    }));
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}
