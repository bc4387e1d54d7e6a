import { virtualServerMistakes } from '../../core/organisation/mcp-virtual-servers.ts';
import { canonicalPath } from '../../core/dialects/match-endpoint.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import {
  definePlugin,
  GatewayError,
  type HookResult,
  type OptionFault,
  type RequestContext,
  type Scope,
} from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { credentialFaults } from './api-credential.ts';
import { ConnectPages } from './oauth/connect.ts';
import { Connections } from './oauth/connections.ts';
import { ownOauthFaults } from './oauth/server-identity.ts';
import { UpstreamCredentials } from './oauth/upstream-credentials.ts';
import { type McpOptions, OptionsSchema } from './options.ts';
import { clientFaults } from './facade/organisation-provider.ts';
import { Gathered } from './gathered.ts';
import { OlderTransport, type Served } from './older-transport.ts';
import { Relay } from './relay.ts';
import { ProtectedResource } from './resource/protected-resource.ts';
import type { Selection } from './gathered-streams.ts';
import { ServerLinks } from './server-link.ts';
import { Servers } from './servers.ts';
import { Sessions } from './sessions.ts';
import { ToolIndexes } from './tool-search.ts';
import { isLoopbackAddress, isLoopbackHost } from '../../core/base/host-rules.ts';
import type { McpVirtualServerData } from '../../core/ports/record-kinds.ts';

/** Serves MCP servers: `/{slug}/mcp` each, `/mcp` all that the caller may use; with `sse` over the older transport. */
export default definePlugin({
  name: 'mcp',
  description:
    'Serves the MCP servers of the administration API and of its options under `/{slug}/mcp` (Streamable HTTP) and `/{slug}/sse` (the older transport). Put it behind `auth`, `policies` and `guardrails`.',
  schema: OptionsSchema,
  // Streams of servers may stay silent for hours; each server has bounds of its own.
  capabilities: { needs: ['key'], timeoutMs: 0 },
  check: optionFaults,
  create(options, scope) {
    const { session_hours: hours = 24, max_message_bytes: maxMessageBytes = 4_194_304 } = options;
    const { secrets, cache, clock } = scope;
    const servers = new Servers(options, scope);
    const virtual = { options, servers, directory: scope.directory };
    scope.onDispose(scope.mcpServers.add(configuredServers(options)));
    const sessions = new Sessions({ secrets, cache, clock, hours });
    const connections = new Connections(scope);
    const pages = new ConnectPages(scope, servers, connections);
    const links = new ServerLinks(scope, sessions, new UpstreamCredentials(scope, { connections, pages }));
    const parts = { scope, sessions, links, maxMessageBytes };
    const relay = new Relay(parts);
    const gathered = new Gathered({ ...parts, relay, indexes: new ToolIndexes() });
    pages.onConnected((account, elicitation) => {
      if (elicitation !== undefined) gathered.elicited(account, elicitation);
    });
    const older = new OlderTransport({ scope, sessions, maxMessageBytes, hours });
    const origins = new Origins(options, scope);
    const resource = new ProtectedResource(options.authorization, scope);
    return {
      admit(context) {
        pages.admit(context);
        resource.admit(context);
      },
      request(context): HookResult {
        if (context.endpoint.id !== 'mcp') return undefined;
        const document = pages.request(context) ?? resource.request(context);
        if (document !== undefined) return document;
        const place = placeOf(context);
        return place === undefined ? undefined : answer(context, place);
      },
      retiring() {
        relay.endStreams();
        gathered.endStreams();
        older.retire();
      },
    };

    async function answer(context: RequestContext, { slug, isOlder }: Place): Promise<Answer> {
      const caller = context.get(callerKey);
      if (caller === undefined) throw new GatewayError('internal', 'The plugin mcp runs without a key.');
      origins.admit(context);
      const methods = isOlder ? olderMethods : currentMethods;
      if (!methods.includes(context.method)) return notAllowed(methods);
      const served = servedAt(slug, context, caller);
      if (isOlder) return older.answer({ context, caller, served });
      const id = context.header('mcp-session-id');
      return await served.answer(
        context,
        id === undefined ? undefined : sessions.open(id, served.slug, caller),
      );
    }

    /** Throws `mcp_server_unknown`. */
    function servedAt(slug: string, context: RequestContext, caller: KeyRecord): Served {
      const selection =
        slug === '' ? allOf(servers, caller, modeOf(context)) : virtualServer(virtual, slug, caller);
      if (selection !== undefined)
        return {
          slug: selection.slug,
          answer: (one, session) => gathered.answer({ context: one, caller, session, selection }),
        };
      const server = servers.find(slug, caller);
      if (server !== undefined)
        return {
          slug: server.slug,
          answer: (one, session) => relay.answer({ server, context: one, caller, session }),
        };
      const known = servers.all(caller).map((one) => one.slug);
      throw unknownServer(slug, [...known, ...virtualSlugs(virtual, caller)]);
    }
  },
});

const currentMethods = ['GET', 'POST', 'DELETE'];
const olderMethods = ['GET', 'POST'];

/** Place of a request for MCP. */
interface Place {
  /** Empty for all servers. */
  readonly slug: string;
  /** Over the transport of protocol 2024-11-05. */
  readonly isOlder: boolean;
}

const servedPath = /^(?:\/([a-z0-9_-]{1,64}))?\/(mcp|sse)$/i;

function placeOf({ path }: RequestContext): Place | undefined {
  const found = servedPath.exec(path) ?? servedPath.exec(canonicalPath(path));
  return found === null ? undefined : { slug: found[1] ?? '', isOlder: found[2]?.toLowerCase() === 'sse' };
}

/** `?mode=search` asks for two tools, one that finds the others and one that calls them. */
function modeOf({ query }: RequestContext): 'list' | 'search' {
  return new URLSearchParams(query).get('mode') === 'search' ? 'search' : 'list';
}

function notAllowed(methods: readonly string[]): Answer {
  return { status: 405, headers: ['allow', methods.join(', ')], body: null };
}

function unknownServer(slug: string, known: readonly string[]): GatewayError {
  const some = known.slice(0, 10).join(', ');
  const hint =
    known.length === 0 ? 'It may use none.' : `It may use: ${some}${known.length > 10 ? ', …' : ''}.`;
  return new GatewayError(
    'mcp_server_unknown',
    `There is no MCP server "${slug}" that the key may use. ${hint}`,
  );
}

/** What records may know of the servers of the options. */
function configuredServers({ servers = {}, virtual_servers: virtual = {} }: McpOptions) {
  return [
    ...Object.entries(servers).map(([slug, { workspaces }]) => ({ slug, isVirtual: false, workspaces })),
    ...Object.entries(virtual).map(([slug, { workspaces }]) => ({ slug, isVirtual: true, workspaces })),
  ];
}

function virtualFaults({ servers = {}, virtual_servers: virtual = {} }: McpOptions): readonly OptionFault[] {
  return Object.entries(virtual).flatMap(([slug, options]) => {
    const path = `/virtual_servers/${slug}`;
    const isTaken = Object.keys(servers).some((one) => one.toLowerCase() === slug.toLowerCase());
    if (isTaken) return [{ path, message: 'is the slug of a server, too; give one of them another slug' }];
    return virtualServerMistakes(options).map((one) => ({ ...one, path: path + one.path }));
  });
}

function optionFaults(options: McpOptions): readonly OptionFault[] {
  return [...serverFaults(options), ...virtualFaults(options), ...clientFaults(options)];
}

function serverFaults({ servers = {} }: McpOptions): readonly OptionFault[] {
  return Object.entries(servers).flatMap(([slug, options]) => {
    const { url, command, args, env, cwd, shared, transport, openapi } = options;
    const path = `/servers/${slug}`;
    if ([url, command, openapi].filter((one) => one !== undefined).length !== 1)
      return [{ path, message: 'needs one of url, command and openapi' }];
    if (openapi?.base_url !== undefined && !isPlainUrl(openapi.base_url))
      return [{ path: `${path}/openapi/base_url`, message: 'is no http or https URL without credentials' }];
    if (openapi !== undefined && /^https?:/i.test(openapi.document) && !isPlainUrl(openapi.document))
      return [{ path: `${path}/openapi/document`, message: 'is no http or https URL without credentials' }];
    const ofCredential = openapi === undefined ? [] : credentialFaults(`${path}/openapi`, openapi);
    if (ofCredential.length > 0) return ofCredential;
    if (url !== undefined && !isPlainUrl(url))
      return [{ path: `${path}/url`, message: 'is no http or https URL without credentials' }];
    if (url === undefined && transport !== undefined)
      return [{ path: `${path}/transport`, message: 'is for servers with a url; leave it out' }];
    const ofProgram = Object.entries({ args, env, cwd, shared }).find(([, value]) => value !== undefined);
    if (command === undefined && ofProgram !== undefined)
      return [{ path: `${path}/${ofProgram[0]}`, message: 'is for servers with a command; leave it out' }];
    return ownOauthFaults(path, options);
  });
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password, protocol } = new URL(text);
  return username === '' && password === '' && /^https?:$/.test(protocol);
}

/**
 * Refuses requests that a web page of another origin makes. A page whose name its owner lets lead to this machine (DNS
 * rebinding) is such a page, too: its requests keep the page's name in `Origin` and `Host`.
 */
class Origins {
  readonly #allowed: ReadonlySet<string>;
  readonly #publicHost: string | undefined;

  constructor({ allowed_origins: own = [] }: McpOptions, { publicUrl }: Pick<Scope, 'publicUrl'>) {
    const known = publicUrl === undefined ? undefined : new URL(publicUrl);
    this.#publicHost = known?.host;
    this.#allowed = new Set([...own.map((one) => one.toLowerCase()), ...(known ? [known.origin] : [])]);
  }

  /** Throws `origin_refused`. */
  admit(context: RequestContext): void {
    const host = context.header('host') ?? '';
    const origin = context.header('origin')?.toLowerCase();
    if (origin !== undefined && !this.#allowed.has(origin) && !isOwn(origin, host)) {
      throw new GatewayError(
        'origin_refused',
        `Web pages of the origin ${JSON.stringify(origin.slice(0, 128))} may not call MCP servers. Name it in allowed_origins of the plugin mcp.`,
      );
    }
    // A client on this machine names this machine; a page that was led here names its own host.
    const isPage = origin === undefined && context.header('sec-fetch-site') !== undefined;
    if (!isPage || isLoopbackHost(host) || host === this.#publicHost) return;
    if (isLoopbackAddress(context.remoteAddress)) {
      throw new GatewayError(
        'origin_refused',
        `The Host ${JSON.stringify(host.slice(0, 128))} is not this gateway. Set server.public_url to the address under which it is reached.`,
      );
    }
  }
}

/** A page that this gateway itself serves on this machine. */
function isOwn(origin: string, host: string): boolean {
  return (
    isLoopbackHost(host) &&
    (origin === `http://${host.toLowerCase()}` || origin === `https://${host.toLowerCase()}`)
  );
}

/** All servers of the caller, as one. */
function allOf(servers: Servers, caller: KeyRecord, mode: Selection['mode']): Selection {
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
function virtualServer(
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
function virtualSlugs(
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
