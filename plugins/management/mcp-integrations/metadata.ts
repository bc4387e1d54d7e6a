import { reachOf } from '../../../core/access/scopes.ts';
import { isUsableIn } from '../../../core/access/integration-access.ts';
import { mcpAddressOf, type ReferringIntegration } from '../../../core/organisation/mcp-address.ts';
import { toolDigest } from '../../../core/organisation/tool-digest.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { McpCapability, McpIntegrationData } from '../../../core/ports/record-kinds.ts';
import { capabilityCounts } from './capabilities.ts';
import { type McpIntegration, mcpIntegrationAccess as access, mcpIntegrationNoun } from './record.ts';
import { Identifier, orNull, strict } from '../shared/fields.ts';
import { visibleServer } from '../mcp-servers/record.ts';
import { places, storedRecords } from '../shared/records.ts';
import { isDeepStrictEqual } from 'node:util';
import type { McpAddress, McpDescription, McpOffer } from '../../../core/ports/mcp.ts';
import { clientCredentials, oauthSecretOf } from '../../../core/organisation/mcp-token.ts';
import type { HeaderList } from '../../../core/ports/header-list.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';

/** Lifetime of a server's description. */
const freshMs = 5 * 60_000;
const maxTextLength = 255;

/** Parameters of a synchronisation. */
interface SyncRequest {
  /** Undefined for the organisation itself. */
  readonly workspaceId: string | undefined;
  /** Synchronise even when the description is fresh. */
  readonly refresh: boolean;
}

/** Synchronises records with the descriptions of their MCP servers, at most once in five minutes. */
export class McpSync {
  private readonly scope: HandshakeScope & Pick<Scope, 'clock' | 'resources'>;
  /** Running synchronisations; concurrent requests with the same key share one. */
  private readonly underWay = new Map<string, Promise<McpIntegration>>();

  constructor(scope: HandshakeScope & Pick<Scope, 'clock' | 'resources'>) {
    this.scope = scope;
  }

  /** The record after a synchronisation, if one was due; the record holds its result. */
  async synced(
    integration: ReferringIntegration,
    { workspaceId, refresh }: SyncRequest,
  ): Promise<McpIntegration> {
    const { record } = integration;
    const { server } = record.data;
    const isFresh = server !== undefined && this.scope.clock.now() - server.syncedAt < freshMs;
    if (isFresh && !refresh) return record;
    const question = `${record.id} ${record.version} ${workspaceId ?? ''}`;
    const present = this.underWay.get(question);
    if (present !== undefined) return present;
    const asking = this.ask(integration, workspaceId).finally(() => this.underWay.delete(question));
    this.underWay.set(question, asking);
    return asking;
  }

  private async ask(
    integration: ReferringIntegration,
    workspaceId: string | undefined,
  ): Promise<McpIntegration> {
    const { mcp } = this.scope;
    const found = await shakeHands(this.scope, integration, workspaceId, (address) => mcp.describe(address));
    try {
      return await this.keep(integration.record, found);
    } catch (error) {
      if (!GatewayError.is(error) || error.code !== 'body_too_large') throw error;
      const failure = 'The server describes more than a record can hold, which is 1 MiB.';
      return this.keep(integration.record, { failure, status: undefined });
    }
  }

  /** Stores the result, unless the record has another address by now. */
  private async keep(asked: McpIntegration, found: Handshake<McpDescription>): Promise<McpIntegration> {
    const { resources, clock } = this.scope;
    if (resources === undefined) return asked;
    const { id, organisationId } = asked;
    return resources.write(organisationId, async ({ records }) => {
      const record = await records.find('mcp_integration', { organisationId }, id);
      if (record === undefined) throw storedRecords.noSuch(mcpIntegrationNoun, asked.slug);
      if (!isSameServer(record, asked)) return record;
      const now = clock.now();
      const data =
        'value' in found ? describedData(record.data, found.value, now) : failedData(record, found);
      if (data === record.data) return record;
      const after = { ...record, data, updatedAt: now, version: record.version + 1 };
      // This transaction locks the organisation, so no other one writes meanwhile.
      return (await records.replace(after)) ? after : record;
    });
  }
}

function isSameServer(record: McpIntegration, asked: McpIntegration): boolean {
  const reached = ({ data, secrets }: McpIntegration): unknown => [
    ...[data.url, data.transport, data.authType, data.oauth, data.secretMappings, secrets],
  ];
  return isDeepStrictEqual(reached(record), reached(asked));
}

/** Keeps the previous description: the failure may be short. */
function failedData({ data }: McpIntegration, { failure }: { readonly failure: string }): McpIntegrationData {
  return data.syncError === failure ? data : { ...data, syncError: failure };
}

function describedData(before: McpIntegrationData, found: McpDescription, now: number): McpIntegrationData {
  return {
    ...before,
    server: {
      name: found.serverName.slice(0, maxTextLength),
      version: found.serverVersion.slice(0, maxTextLength),
      protocolVersion: found.protocolVersion.slice(0, maxTextLength),
      capabilityFlags: plain(found.capabilityFlags),
      syncedAt: now,
    },
    syncError: '',
    capabilities: withOffers(before.capabilities, found.offers, now),
  };
}

/** Offered capabilities, in the server's order: known ones keep flag and age, new ones are enabled, others removed. */
function withOffers(
  before: readonly McpCapability[],
  offers: readonly McpOffer[],
  now: number,
): readonly McpCapability[] {
  const known = new Map(before.map((one) => [capabilityCounts.key(one), one]));
  return offers.map(({ type, name, described: said, digest }) => {
    const offered: Description = { described: plain(said), ...(digest !== undefined && { digest }) };
    const was = known.get(capabilityCounts.key({ type, name }));
    if (was === undefined) return { type, name, ...offered, enabled: true, createdAt: now, updatedAt: now };
    return withDescription(was, offered, now);
  });
}

type Description = NonNullable<McpCapability['pending']>;

/** A tool that a model would read otherwise keeps what was approved, and has the new description beside it. */
function withDescription(was: McpCapability, offered: Description, now: number): McpCapability {
  const { pending, digest, ...approved } = was;
  if (was.type === 'tool' && digestOf(was) !== digestOf(offered)) {
    if (isDeepStrictEqual(pending, offered)) return was;
    return { ...was, pending: offered, updatedAt: now };
  }
  const isSame = pending === undefined && isDeepStrictEqual(was.described, offered.described);
  if (isSame && digest === offered.digest) return was;
  return { ...approved, ...offered, updatedAt: isSame ? was.updatedAt : now };
}

function digestOf({ described, digest }: Description): string | undefined {
  return digest ?? toolDigest(described);
}

/** Plain JSON for records; the server's answer was parsed from JSON. */
function plain(value: Readonly<Record<string, unknown>>): McpCapability['described'] {
  return JSON.parse(JSON.stringify(value)) as McpCapability['described'];
}

const Text = orNull(Type.String());
const Reply = Type.Object({
  server_name: Text,
  server_version: Text,
  protocol_version: Text,
  capability_flags: orNull(Type.Record(Type.String(), Type.Unknown())),
  sync_status: Type.Union([Type.Literal('synced'), Type.Literal('failed'), Type.Literal('never')]),
  last_synced_at: orNull(Type.String({ description: 'Time of the last successful handshake.' })),
  sync_error: orNull(Type.String({ description: 'Reason for the failure of the last handshake.' })),
  counts: capabilityCounts.Schema,
});
const refresh = Type.Optional(
  Type.Boolean({
    description: 'Ask the server now. Default: only if the last answer is older than five minutes.',
  }),
);
const example: Static<typeof Reply> = {
  server_name: 'tickets',
  server_version: '1.4.0',
  protocol_version: '2025-06-18',
  capability_flags: { tools: { listChanged: true } },
  sync_status: 'synced',
  last_synced_at: '2026-11-22T09:00:00.000Z',
  sync_error: null,
  counts: capabilityCounts.example,
};

/** The routes of MCP server metadata, which synchronise it. */
export function mcpMetadataRoutes(scope: Scope): readonly RouteDefinition[] {
  const sync = new McpSync(scope);
  return [ofIntegrationRoute(sync), ofServerRoute(sync)];
}

function ofIntegrationRoute(sync: McpSync): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_metadata.get',
    method: 'GET',
    path: '/mcp-integrations/{mcpIntegrationId}/metadata',
    summary:
      'Metadata of the server of an MCP integration; asks the server if they are older than five minutes',
    scope: access.scopes('read'),
    // The route only refreshes a stored description: the caller changes nothing.
    audit: null,
    params: Type.Object({ mcpIntegrationId: Identifier }),
    query: Type.Object(
      {
        refresh,
        workspace_id: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: 'Workspace for the call to the server, if its secrets are not for all workspaces.',
          }),
        ),
      },
      strict,
    ),
    reply: Reply,
    examples: { response: example },
    async handle({ params, query, key, read, sendVersion }) {
      const { workspace_id: workspace, refresh = false } = query;
      const { integration, workspaceId } = await read(async (reader) => {
        const named = { slug: params.mcpIntegrationId, workspace };
        const record = await access.visible(reader, key, named, 'read');
        const said = workspace === undefined ? undefined : (await places.visible(reader, key, workspace)).id;
        return {
          integration: await withReferences(reader, record),
          workspaceId: said ?? record.workspaceId ?? reachOf(key).workspaceId,
        };
      });
      const record = await sync.synced(integration, { workspaceId, refresh });
      sendVersion(record.version);
      return showMetadata(record.data, record.data.capabilities);
    },
  });
}

function ofServerRoute(sync: McpSync): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_metadata.get',
    method: 'GET',
    path: '/mcp-servers/{mcpServerId}/metadata',
    summary: 'Metadata of an MCP server; asks the server if they are older than five minutes',
    scope: 'mcp_servers.read',
    // The route only refreshes a stored description: the caller changes nothing.
    audit: null,
    params: Type.Object({ mcpServerId: Identifier }),
    query: Type.Object({ refresh, workspace_id: Type.Optional(Identifier) }, strict),
    reply: Reply,
    examples: { response: example },
    async handle({ params, query, key, read }) {
      const { refresh = false, workspace_id: workspace } = query;
      const named = { idOrSlug: params.mcpServerId, workspace };
      const { server, integration } = await read(async (reader) => {
        const { server, integration } = await visibleServer(reader, key, named);
        return { server, integration: await withReferences(reader, integration) };
      });
      const workspaceId = server.workspaceId ?? '';
      // A workspace without access to the integration causes no connection.
      const record = isUsableIn(integration.record, workspaceId)
        ? await sync.synced(integration, { workspaceId, refresh })
        : integration.record;
      return showMetadata(record.data, capabilityCounts.merged(server, record));
    },
  });
}

function showMetadata(
  { server, syncError }: McpIntegrationData,
  capabilities: readonly Pick<McpCapability, 'type' | 'enabled'>[],
): Static<typeof Reply> {
  return {
    server_name: server?.name ?? null,
    server_version: server?.version ?? null,
    protocol_version: server?.protocolVersion ?? null,
    capability_flags: server === undefined ? null : { ...server.capabilityFlags },
    sync_status: syncError !== '' ? 'failed' : server === undefined ? 'never' : 'synced',
    last_synced_at: server === undefined ? null : new Date(server.syncedAt).toISOString(),
    sync_error: syncError === '' ? null : syncError,
    counts: capabilityCounts.of(capabilities),
  };
}

/** `POST /mcp-servers/{mcpServerId}/test`: tests whether the server answers. */
export function mcpServerTestRoute(scope: Scope): RouteDefinition {
  const { clock, mcp } = scope;
  return defineRoute({
    id: 'mcp_server_test.run',
    method: 'POST',
    path: '/mcp-servers/{mcpServerId}/test',
    summary:
      'Tests the handshake with an MCP server; a failed handshake is also a successful answer of this route',
    scope: 'mcp_servers.read',
    // Changes nothing.
    audit: null,
    params: Type.Object({ mcpServerId: Identifier }),
    body: Type.Object({}, strict),
    reply: Type.Object({
      success: Type.Boolean(),
      status_code: orNull(Type.Integer({ description: 'HTTP status of its answer, if there was one.' })),
      response_time_ms: orNull(Type.Integer()),
      url: Type.String(),
      server_name: Type.String({
        description: 'Name that the server reports; the name of the record if the handshake fails.',
      }),
      error: orNull(Type.String()),
    }),
    examples: {
      request: {},
      response: {
        success: true,
        status_code: 200,
        response_time_ms: 87,
        server_name: 'tickets',
        error: null,
        url: 'https://tickets.example.com/mcp',
      },
    },
    async handle({ params, key, read }) {
      const { server, integration } = await read(async (reader) => {
        const { server, integration } = await visibleServer(reader, key, { idOrSlug: params.mcpServerId });
        return { server, integration: await withReferences(reader, integration) };
      });
      const workspaceId = server.workspaceId ?? '';
      const { url } = integration.record.data;
      const startedAt = clock.monotonic();
      const greeting: Handshake<{ readonly serverName: string }> = isUsableIn(integration.record, workspaceId)
        ? await shakeHands(scope, integration, workspaceId, (address) => mcp.greet(address))
        : { failure: 'The workspace may not use the MCP integration any more.', status: undefined };
      const response_time_ms = Math.round(clock.monotonic() - startedAt);
      if ('value' in greeting) {
        const { serverName } = greeting.value;
        return {
          success: true,
          status_code: 200,
          response_time_ms,
          url,
          server_name: serverName,
          error: null,
        };
      }
      return {
        success: false,
        status_code: greeting.status ?? null,
        response_time_ms,
        url,
        server_name: server.name,
        error: greeting.failure,
      };
    },
  });
}

const maxFailureLength = 1000;
/** Shorter header values are not hidden: they would match parts of ordinary words. */
const shortestHidden = 4;

/** Result of a handshake. */
type Handshake<T> =
  | { readonly value: T }
  | {
      /** A sentence for users, without header values. */
      readonly failure: string;
      /** HTTP status of the server's answer; undefined without an answer. */
      readonly status: number | undefined;
    };

/** Parts of the scope for handshakes. */
type HandshakeScope = Pick<Scope, 'log' | 'mcp' | 'secrets' | 'secretManagers'>;

/**
 * Connects to the server of an MCP integration, for the workspace or for the organisation itself. Never rejects: a
 * failure is a result, too. Do not call it within a transaction.
 */
async function shakeHands<T>(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
  speak: (address: McpAddress) => Promise<T>,
): Promise<Handshake<T>> {
  let address: McpAddress | undefined;
  try {
    address = await mcpAddressOf(integration, workspaceId, scope);
    address = {
      ...address,
      headers: [...address.headers, ...(await authorization(scope, integration, workspaceId))],
    };
    return { value: await speak(address) };
  } catch (error) {
    if (GatewayError.is(error)) {
      const status = error.extra?.['status'];
      return {
        failure: withoutValues(error.message, address).slice(0, maxFailureLength),
        status: typeof status === 'number' && Number.isInteger(status) ? status : undefined,
      };
    }
    const { id } = integration.record;
    const reason = withoutValues(String(error), address);
    scope.log.error('A handshake with an MCP server broke off', { integration: id, error: reason });
    return { failure: 'The gateway itself failed in the handshake; its log says why.', status: undefined };
  }
}

/** The gateway's own token for the server; tokens of users are of no use to a handshake that is made for all. */
async function authorization(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
): Promise<HeaderList> {
  const { url, authType, oauth: settings = {} } = integration.record.data;
  if (authType !== 'oauth_client_credentials') return [];
  const secret = await oauthSecretOf(integration, workspaceId, scope);
  const { accessToken } = await clientCredentials(scope.mcp.oauth, { url, settings }, secret);
  return ['authorization', `Bearer ${accessToken}`];
}

function withoutValues(message: string, address: McpAddress | undefined): string {
  let text = message;
  const values = address?.headers.filter((_, index) => index % 2 === 1) ?? [];
  for (const value of values) if (value.length >= shortestHidden) text = text.replaceAll(value, '…');
  return text;
}

/** Reads the secret references of an MCP integration for `mcpAddressOf`, which runs outside of the transaction. */
export async function withReferences(
  { records }: Pick<ResourcesReader, 'records'>,
  record: StoredRecord<'mcp_integration'>,
): Promise<ReferringIntegration> {
  const { organisationId, data } = record;
  const references: ReferringIntegration['references'][number][] = [];
  for (const { secretReferenceId } of data.secretMappings)
    references.push(await records.find('secret_reference', { organisationId }, secretReferenceId));
  return { record, references };
}
