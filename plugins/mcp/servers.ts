import { isUsableIn } from '../../core/access/integration-access.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { mcpAddressOf, type ReferringIntegration } from '../../core/organisation/mcp-address.ts';
import { oauthSecretOf } from '../../core/organisation/mcp-token.ts';
import { toolDigest } from '../../core/organisation/tool-digest.ts';
import type { MaybePromise, Scope } from '../../core/pipeline/plugin.ts';
import type { ToolGuardrails } from '../../core/pipeline/tool-calls.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { McpTarget, McpUpstream } from '../../core/ports/mcp.ts';
import type { McpCapability, McpCapabilityType } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { apiCredential } from './api-credential.ts';
import { ownIdentity, type ServerIdentity } from './oauth/server-identity.ts';
import type { McpOptions, ServerOptions, ToolOptions } from './options.ts';
import path from 'node:path';

/** A server as one caller may use it. */
export interface McpServer {
  readonly slug: string;
  /** Equal for the same server of any caller; another one after each change. */
  readonly id: string;
  /** Host for the log; the command of a program. */
  readonly host: string;
  readonly upstream: McpUpstream;
  /** Milliseconds. */
  readonly timeoutMs: number;
  /** Headers of a request of this caller that depend on nothing but its messages, credentials among them. */
  headers(caller: KeyRecord, body: Uint8Array | null): MaybePromise<HeaderList>;
  /** Its further credentials depend on this; undefined for a program. */
  readonly identity: ServerIdentity | undefined;
  /** False for something that is switched off. A resource is known by its name and by its URI. */
  isOn(type: McpCapabilityType, name: string): boolean;
  /** Something may be switched off, so lists have to be read. */
  readonly hasSwitches: boolean;
  /** Templates of resources that are switched off. */
  readonly closedTemplates: readonly string[];
  /** The operator's settings of a tool; undefined for none. */
  tool(name: string): ToolOptions | undefined;
  /**
   * The `toolDigest` of a tool as it was approved: it is held back while it has another one. Empty for a new tool that
   * is held back; undefined for one that may be as it likes.
   */
  approvedDigest(tool: string): string | undefined;
  /** A tool with an approved digest cannot be called while the server does not list it. */
  readonly requiresListed: boolean;
  /** Guardrails of its own for calls of its tools; the same object for as long as they stay. */
  readonly guardrails: ToolGuardrails | undefined;
  /** Longest text of a tool's result; undefined for no bound. */
  maxResultBytes(tool: string): number | undefined;
}

/** The part of a key that servers are found by. */
type ServerUser = Pick<KeyRecord, 'organisationId' | 'workspaceId' | 'userId'>;

const maxUpstreams = 1_000;

/** The servers of the options and of the administered records, as callers may use them. */
export class Servers {
  readonly #scope: Scope;
  readonly #own = new Map<string, OwnServer>();
  readonly #stored = new WeakMap<StoredRecord<'mcp_server'>, StoredServer>();
  /** Ways to servers of records, by what they depend on. */
  readonly #upstreams: RecentMap<McpUpstream>;

  constructor({ servers = {} }: McpOptions, scope: Scope) {
    this.#scope = scope;
    // One that made room is opened anew when it is needed; its sessions and connections must not stay behind.
    this.#upstreams = new RecentMap(maxUpstreams, (upstream) => {
      upstream.close().catch((error: unknown) => {
        scope.log.warn('A way to an MCP server could not be closed', { error });
      });
    });
    for (const [slug, options] of Object.entries(servers))
      this.#own.set(slug.toLowerCase(), new OwnServer(slug, options, scope));
    scope.onDispose(() => this.#close());
  }

  /** The server with this slug; undefined where there is none, or none for this caller. */
  find(slug: string, caller: ServerUser): McpServer | undefined {
    const own = this.#own.get(slug.toLowerCase());
    if (own !== undefined) return this.isFor(own.workspaces, caller) ? own : undefined;
    const { directory } = this.#scope;
    const { organisationId, workspaceId } = caller;
    const record = directory.record('mcp_server', { organisationId, workspaceId }, slug);
    return record === undefined || record.slug !== slug ? undefined : this.#storedFor(record, caller);
  }

  /** All servers of this caller, by slug. */
  all(caller: KeyRecord): readonly McpServer[] {
    const { organisationId, workspaceId } = caller;
    const found = new Map<string, McpServer>();
    for (const own of this.#own.values()) if (this.isFor(own.workspaces, caller)) found.set(own.slug, own);
    for (const record of this.#scope.directory.records('mcp_server', { organisationId, workspaceId })) {
      const server = this.#own.has(record.slug.toLowerCase()) ? undefined : this.#storedFor(record, caller);
      if (server !== undefined && !found.has(server.slug)) found.set(server.slug, server);
    }
    return [...found.values()].sort((one, other) => (one.slug < other.slug ? -1 : 1));
  }

  /** Whether the caller's workspace is one of these, by id or slug; undefined: all are. */
  isFor(workspaces: readonly string[] | undefined, { workspaceId, organisationId }: ServerUser): boolean {
    if (workspaces === undefined) return true;
    return workspaces.some(
      (one) => one === workspaceId || this.#scope.directory.workspaceId(organisationId, one) === workspaceId,
    );
  }

  #storedFor(record: StoredRecord<'mcp_server'>, caller: ServerUser): McpServer | undefined {
    const { organisationId, parentId, workspaceId, data } = record;
    const integration = this.#scope.directory.record('mcp_integration', { organisationId }, parentId);
    if (integration === undefined || workspaceId !== caller.workspaceId) return undefined;
    if (!isUsableIn(integration, caller.workspaceId) || !mayUse(data, caller)) return undefined;
    let server = this.#stored.get(record);
    if (server === undefined || server.integration !== integration) {
      server = new StoredServer(record, integration, this.#scope, (target) => this.#upstreamTo(target));
      this.#stored.set(record, server);
    }
    return server;
  }

  #upstreamTo(target: McpTarget): McpUpstream {
    const key = JSON.stringify(target);
    let upstream = this.#upstreams.touch(key);
    if (upstream === undefined) this.#upstreams.set(key, (upstream = this.#scope.mcp.upstream(target)));
    return upstream;
  }

  async #close(): Promise<void> {
    const upstreams = [...this.#upstreams.entries()].map(([, upstream]) => upstream);
    for (const { upstream } of this.#own.values()) upstreams.push(upstream);
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  }
}

/** A user's own entry counts; everything else, keys without a user too, has the default. */
function mayUse(
  { defaultUserAccess, userAccess }: StoredRecord<'mcp_server'>['data'],
  { userId }: ServerUser,
): boolean {
  const own = userId !== '' && Object.hasOwn(userAccess, userId) ? userAccess[userId] : undefined;
  return own ?? defaultUserAccess === 'allow';
}

const noTemplates: readonly string[] = [];
const defaultTimeoutMs = 120_000;

/** A server of the options. */
class OwnServer implements McpServer {
  readonly slug: string;
  readonly id: string;
  readonly host: string;
  readonly upstream: McpUpstream;
  readonly timeoutMs: number;
  readonly hasSwitches: boolean;
  readonly closedTemplates = noTemplates;
  readonly requiresListed = true;
  readonly #scope: Scope;
  readonly identity: ServerIdentity | undefined;
  readonly #options: ServerOptions;
  readonly #headers: HeaderList;
  readonly #names: ReadonlySet<string>;
  readonly #prefixes: readonly string[];

  constructor(slug: string, options: ServerOptions, scope: Scope) {
    this.#scope = scope;
    this.slug = slug;
    this.id = `yaml:${slug}`;
    this.#options = options;
    const { url, tools = {}, allow, call_timeout_ms: timeoutMs = defaultTimeoutMs } = options;
    this.host = hostOf(options);
    this.timeoutMs = timeoutMs;
    this.upstream = scope.mcp.upstream(targetOf(slug, options));
    this.identity = url === undefined ? undefined : ownIdentity({ id: this.id, slug, url }, options);
    this.#headers = Object.entries(options.headers ?? {}).flat();
    this.#names = new Set(allow?.filter((name) => !name.endsWith('*')));
    this.#prefixes = (allow ?? []).filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
    const isChanged = ({ enabled = true, description, digest }: ToolOptions): boolean =>
      !enabled || description !== undefined || digest !== undefined;
    const holdsNew = options.new_tools === 'hold';
    this.hasSwitches = holdsNew || allow !== undefined || Object.values(tools).some(isChanged);
  }

  get workspaces(): readonly string[] | undefined {
    return this.#options.workspaces;
  }

  get guardrails(): ToolGuardrails {
    return this.#options;
  }

  headers(caller: KeyRecord, body: Uint8Array | null): MaybePromise<HeaderList> {
    const { openapi } = this.#options;
    // The fixed headers of an API are with its target, which knows the hosts that may have them.
    return openapi === undefined ? this.#headers : apiCredential(openapi, { caller, body }, this.#scope);
  }

  isOn(type: McpCapabilityType, name: string): boolean {
    if (type !== 'tool') return true;
    if (this.tool(name)?.enabled === false) return false;
    return this.#options.allow === undefined || this.#isAllowed(name);
  }

  #isAllowed(name: string): boolean {
    return this.#names.has(name) || this.#prefixes.some((prefix) => name.startsWith(prefix));
  }

  approvedDigest(name: string): string | undefined {
    const tool = this.tool(name);
    if (tool !== undefined || this.#options.new_tools !== 'hold') return tool?.digest;
    return this.#isAllowed(name) ? undefined : '';
  }

  tool(name: string): ToolOptions | undefined {
    const { tools } = this.#options;
    return tools !== undefined && Object.hasOwn(tools, name) ? tools[name] : undefined;
  }

  maxResultBytes(tool: string): number | undefined {
    return this.tool(tool)?.max_result_bytes ?? this.#options.max_result_bytes;
  }
}

function targetOf(slug: string, options: ServerOptions): McpTarget {
  const { url, transport = 'http', command, args = [], env = {}, cwd, openapi } = options;
  if (openapi !== undefined) return openapiTarget(slug, openapi, options);
  if (url !== undefined) return { type: transport, url, guarded: false };
  const { max_processes: maxChildren = 16, shared: isShared = false } = options;
  return { type: 'stdio', name: slug, command: command ?? '', args, env, cwd, maxChildren, isShared };
}

/** Longest answer of an API to one call. */
const maxAnswerBytes = 4_194_304;

function openapiTarget(
  slug: string,
  {
    document,
    base_url: baseUrl,
    include,
    exclude,
    max_tools: maxTools = 1_000,
  }: NonNullable<ServerOptions['openapi']>,
  { headers = {}, call_timeout_ms: timeoutMs = defaultTimeoutMs }: ServerOptions,
): McpTarget {
  return {
    type: 'openapi',
    name: slug,
    document: /^https?:/i.test(document) ? document : path.resolve(document),
    baseUrl,
    headers: Object.entries(headers).flat(),
    include,
    exclude,
    maxTools,
    maxAnswerBytes,
    timeoutMs,
  };
}

/** Host of the API or server; the command of a program, the name of a document's file. */
function hostOf({ url, command, openapi }: ServerOptions): string {
  const address = url ?? openapi?.base_url ?? openapi?.document ?? '';
  return /^https?:/i.test(address) ? new URL(address).host : path.basename(command ?? address);
}

/** No tool has it. */
const unreadable = 'sha256:none';

/** A server of the administration, in its workspace. */
class StoredServer implements McpServer {
  readonly slug: string;
  readonly id: string;
  readonly host: string;
  readonly timeoutMs = defaultTimeoutMs;
  readonly hasSwitches: boolean;
  readonly closedTemplates: readonly string[];
  readonly requiresListed = false;
  readonly identity: ServerIdentity;
  readonly guardrails = undefined;
  readonly integration: StoredRecord<'mcp_integration'>;
  readonly #approved = new Map<string, McpCapability>();
  readonly #digests = new Map<string, string>();
  readonly #record: StoredRecord<'mcp_server'>;
  readonly #scope: Scope;
  readonly #open: (target: McpTarget) => McpUpstream;
  /** The parts that are off, as `type:name`; a resource under its URI as well. */
  readonly #off = new Set<string>();
  #headers: HeaderList | undefined;

  constructor(
    record: StoredRecord<'mcp_server'>,
    integration: StoredRecord<'mcp_integration'>,
    scope: Scope,
    open: (target: McpTarget) => McpUpstream,
  ) {
    this.#record = record;
    this.integration = integration;
    this.#scope = scope;
    this.#open = open;
    this.slug = record.slug;
    this.id = `${record.id}:${record.version}:${integration.version}`;
    this.host = new URL(integration.data.url).host;
    this.identity = {
      id: record.id,
      slug: record.slug,
      url: integration.data.url,
      authType: integration.data.authType,
      oauth: integration.data.oauth ?? {},
      identityHeaders: integration.data.identityHeaders ?? {},
      workspaceId: record.workspaceId,
      oauthSecret: () => oauthSecretOf(this.#referring(), record.workspaceId, scope),
    };
    const known = new Map(integration.data.capabilities.map((one) => [`${one.type}:${one.name}`, one]));
    for (const one of integration.data.capabilities)
      if (one.type === 'tool') this.#approved.set(one.name, one);
    const closed: McpCapability[] = integration.data.capabilities.filter(({ enabled }) => !enabled);
    for (const { type, name, enabled } of record.data.capabilities) {
      if (enabled) continue;
      this.#off.add(`${type}:${name}`);
      const capability = known.get(`${type}:${name}`);
      if (capability !== undefined) closed.push(capability);
    }
    const templates: string[] = [];
    for (const { type, name, described } of closed) {
      this.#off.add(`${type}:${name}`);
      const { uri, uriTemplate } = described;
      if (typeof uri === 'string') this.#off.add(`${type}:${uri}`);
      if (typeof uriTemplate === 'string') {
        this.#off.add(`${type}:${uriTemplate}`);
        templates.push(uriTemplate);
      }
    }
    this.closedTemplates = templates;
    this.hasSwitches = this.#off.size > 0 || this.#approved.size > 0;
  }

  get upstream(): McpUpstream {
    const { url, transport } = this.integration.data;
    return this.#open({ type: transport, url, guarded: true });
  }

  headers(): MaybePromise<HeaderList> {
    if (this.integration.data.secretMappings.length > 0) return this.#read();
    // Without references the headers are those of the record, which never changes.
    return this.#headers ?? this.#read().then((headers) => (this.#headers = headers));
  }

  async #read(): Promise<HeaderList> {
    return (await mcpAddressOf(this.#referring(), this.#record.workspaceId, this.#scope)).headers;
  }

  #referring(): ReferringIntegration {
    const { organisationId, data } = this.integration;
    const references = data.secretMappings.map(({ secretReferenceId }) =>
      this.#scope.directory.record('secret_reference', { organisationId }, secretReferenceId),
    );
    return { record: this.integration, references };
  }

  isOn(type: McpCapabilityType, name: string): boolean {
    return !this.#off.has(`${type}:${name}`);
  }

  tool(): undefined {
    return undefined;
  }

  approvedDigest(name: string): string | undefined {
    const tool = this.#approved.get(name);
    if (tool === undefined) return undefined;
    if (tool.digest !== undefined) return tool.digest;
    let digest = this.#digests.get(name);
    // Of a record without digests, and so of what it keeps of the description.
    if (digest === undefined) this.#digests.set(name, (digest = toolDigest(tool.described) ?? unreadable));
    return digest;
  }

  maxResultBytes(): undefined {
    return undefined;
  }
}
