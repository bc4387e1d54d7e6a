import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type { McpVirtualServerData } from '../../core/ports/record-kinds.ts';
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

/** Sources of virtual servers. */
interface VirtualSources {
  readonly options: McpOptions;
  readonly servers: Servers;
  readonly directory: Pick<Scope['directory'], 'record' | 'records'>;
}

/**
 * The virtual server of this slug, of the options or else of the caller's workspace; undefined for none. Servers that the
 * caller may not use are left out. A server with the slug comes before a record.
 */
export function virtualServer(
  { options: { virtual_servers: virtual = {} }, servers, directory }: VirtualSources,
  slug: string,
  caller: KeyRecord,
): Selection | undefined {
  const options = Object.hasOwn(virtual, slug) ? virtual[slug] : undefined;
  if (options !== undefined && servers.isFor(options.workspaces, caller))
    return selectionOf(slug, options, servers, caller);
  const record = directory.record('mcp_virtual_server', caller, slug);
  if (record?.slug !== slug || record.workspaceId !== caller.workspaceId) return undefined;
  return servers.find(slug, caller) === undefined
    ? selectionOf(slug, record.data, servers, caller)
    : undefined;
}

/** Slugs of the virtual servers of the caller. */
export function virtualSlugs(
  { options: { virtual_servers: virtual = {} }, servers, directory }: VirtualSources,
  caller: KeyRecord,
): readonly string[] {
  const own = Object.entries(virtual).filter(([, { workspaces }]) => servers.isFor(workspaces, caller));
  const stored = directory
    .records('mcp_virtual_server', caller)
    .filter(({ workspaceId }) => workspaceId === caller.workspaceId);
  return [...new Set([...own.map(([slug]) => slug), ...stored.map(({ slug }) => slug)])];
}

type VirtualParts = Partial<Pick<McpVirtualServerData, 'servers' | 'tools' | 'mode' | 'instructions'>>;

function selectionOf(
  slug: string,
  { servers: named, tools, mode = 'list', instructions = '' }: VirtualParts,
  servers: Servers,
  caller: KeyRecord,
): Selection {
  const slugs = named ?? [...new Set(tools?.map(({ server }) => server))];
  const known = slugs.flatMap((one) => servers.find(one, caller) ?? []);
  const chosen = tools?.flatMap(({ server: of, tool: name, name: shown = name, description }) => {
    const server = known.find((one) => one.slug === of);
    return server === undefined ? [] : [{ server, name, shown, description }];
  });
  return { slug, servers: known, chosen, mode, instructions: instructions === '' ? undefined : instructions };
}
