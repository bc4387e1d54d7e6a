import type { KeyRecord } from '../../core/ports/directory.ts';
import type { McpServer, Servers } from './servers.ts';
import type { McpOptions } from './options.ts';

/** A tool that a virtual server shows. */
interface ChosenTool {
  readonly server: McpServer;
  /** Name at the server. */
  readonly name: string;
  /** Name for clients. */
  readonly shown: string;
  readonly description: string | undefined;
}

/** Servers, or tools of them, that are served as one. */
export interface Selection {
  /** Of the virtual server; empty for all servers. */
  readonly slug: string;
  readonly servers: readonly McpServer[];
  /** Undefined: all tools of the servers, under the slugs of these. */
  readonly chosen: readonly ChosenTool[] | undefined;
  readonly mode: 'list' | 'search';
  /** For the model, in the handshake. */
  readonly instructions: string | undefined;
}

/** All servers of the caller, as one. */
export function allOf(servers: Servers, caller: KeyRecord, mode: Selection['mode']): Selection {
  return { slug: '', servers: servers.all(caller), chosen: undefined, mode, instructions: undefined };
}

/** The virtual server of this slug; undefined for none. Servers that the caller may not use are left out. */
export function virtualServer(
  { virtual_servers: virtual = {} }: McpOptions,
  slug: string,
  servers: Servers,
  caller: KeyRecord,
): Selection | undefined {
  const options = Object.hasOwn(virtual, slug) ? virtual[slug] : undefined;
  if (options === undefined || !servers.isFor(options.workspaces, caller)) return undefined;
  const { tools, mode = 'list', instructions } = options;
  const slugs = options.servers ?? [...new Set(tools?.map(({ server }) => server))];
  const known = slugs.flatMap((one) => servers.find(one, caller) ?? []);
  const chosen = tools?.flatMap(({ server: of, tool: name, name: shown = name, description }) => {
    const server = known.find((one) => one.slug === of);
    return server === undefined ? [] : [{ server, name, shown, description }];
  });
  return { slug, servers: known, chosen, mode, instructions };
}
