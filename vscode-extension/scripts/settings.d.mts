export type Properties = Record<string, { readonly [key: string]: unknown }>;

export interface Manifest {
  readonly capabilities: { readonly untrustedWorkspaces: { readonly restrictedConfigurations: readonly string[] } };
  readonly contributes: { readonly configuration: { readonly properties: Properties } };
}

export function parseSettings(text: string): Properties;
export function manifestWith(manifest: Manifest, serverSettings: Properties): { readonly manifest: Manifest; readonly changed: readonly string[] };
