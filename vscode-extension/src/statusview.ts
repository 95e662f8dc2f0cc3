/** What the status item shows. Pure: no editor types. */

import type { Status } from "./protocol";

/** What the extension itself knows about the server process. */
export type Phase =
  | { readonly kind: "stopped" }
  | { readonly kind: "starting" }
  | { readonly kind: "running"; readonly server: string }
  | { readonly kind: "restarting"; readonly delayMs: number }
  | { readonly kind: "failed"; readonly problem: string };

export interface StatusView {
  /** with codicons, such as "$(pulse) SOL H100 SXM" */
  readonly text: string;
  /** lines of plain text */
  readonly tooltip: readonly string[];
  readonly background: "none" | "warning" | "error";
}

const HINT = "Click for hardware, interpreter, restart and output.";

/** A chip's name as short as it is still told apart: no vendor, no brand, no memory size, nothing in brackets. */
export function shortName(hardwareName: string): string {
  return hardwareName.replace(/^(?:NVIDIA|AMD|Google)(?: GeForce| Instinct| Cloud)? /, "").replace(/ (?:\d+GB|\(.*\))$/, "");
}

export function statusView(phase: Phase, status: Status | undefined): StatusView {
  const label = ["SOL", shortName(status?.hardwareName ?? "")].filter(Boolean).join(" ");
  switch (phase.kind) {
    case "stopped":
      return { text: `$(circle-slash) SOL`, tooltip: ["sollens is not running.", HINT], background: "none" };
    case "starting":
      return { text: `$(loading~spin) ${label}`, tooltip: ["sollens is starting.", HINT], background: "none" };
    case "restarting":
      return {
        text: `$(loading~spin) ${label}`,
        tooltip: [`The server stopped; starting it again in ${phase.delayMs / 1000} s.`, HINT],
        background: "warning",
      };
    case "failed":
      return { text: `$(error) SOL`, tooltip: [phase.problem, HINT], background: "error" };
    case "running":
      return runningView(label, phase.server, status);
  }
}

function runningView(label: string, server: string, status: Status | undefined): StatusView {
  const icons = { idle: "pulse", tracing: "loading~spin", analysing: "loading~spin", error: "error", untrusted: "shield" } as const;
  const backgrounds = { idle: "none", tracing: "none", analysing: "none", error: "error", untrusted: "warning" } as const;
  const texts = {
    idle: "Ready.",
    tracing: "Tracing.",
    analysing: "Analysing.",
    error: "The last analysis failed.",
    untrusted: "This workspace is not trusted: nothing of it is run. Trust it to see speeds of light.",
  } as const;
  const state = status?.state ?? "idle";
  return {
    text: `$(${icons[state]}) ${label}`,
    tooltip: [
      status?.text || texts[state],
      ...(status?.hardwareName ? [`Hardware: ${status.hardwareName}`] : []),
      ...(status === undefined ? [] : [`Interpreter: ${status.interpreter ?? "none"}`]),
      `Server: ${server}`,
      HINT,
    ],
    background: backgrounds[state],
  };
}
