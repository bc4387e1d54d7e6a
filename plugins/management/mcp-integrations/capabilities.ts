import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { McpCapability, McpCapabilityType, McpServerData } from '../../../core/ports/record-kinds.ts';
import { storedRecords } from '../shared/records.ts';
import { mcpIntegrationAccess as access } from './record.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, nearest, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { Page } from '../../../core/ports/page.ts';
import type { Mistake } from '../../../core/base/json.ts';
import { visibleServer } from '../mcp-servers/record.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';

/** Type of a capability. */
const CapabilityType = Type.Union([
  Type.Literal('tool'),
  Type.Literal('prompt'),
  Type.Literal('resource'),
  Type.Literal('resource_template'),
]);

const AnyObject = Type.Optional(Type.Record(Type.String(), Type.Unknown()));
const AnyList = Type.Optional(Type.Array(Type.Unknown()));
const Text = Type.Optional(Type.String());

/** Members of the shared ones that a changed tool shows of its new description. */
const Pending = Type.Object({
  title: orNull(Type.String()),
  description: orNull(Type.String()),
  input_schema: AnyObject,
  output_schema: AnyObject,
  annotations: AnyObject,
});

/** Members of a capability in the API, for integrations and servers alike. */
const SharedCapability = Type.Object({
  name: Type.String(),
  type: CapabilityType,
  title: orNull(Type.String()),
  description: orNull(Type.String()),
  enabled: Type.Boolean(),
  icons: AnyList,
  input_schema: AnyObject,
  output_schema: AnyObject,
  execution: AnyObject,
  annotations: AnyObject,
  arguments: AnyList,
  uri: Text,
  uri_template: Text,
  mime_type: Text,
  size: Type.Optional(Type.Number()),
  status: Type.Optional(
    Type.Literal('changed', {
      description:
        'The server describes the tool otherwise than it was approved; it is held back until the change is accepted.',
    }),
  ),
  pending: Type.Optional(Pending),
});

const Count = Type.Object({ total: Type.Integer(), enabled: Type.Integer() });

/** Number of capabilities of each type, on every page. */
const CapabilityCounts = Type.Object({
  tools: Count,
  prompts: Count,
  resources: Count,
  resource_templates: Count,
});

/** Query of a list of capabilities: a page from 1 (`page`) or from 0 (`current_page`), of all types or of one. */
const CapabilityQuery = Type.Object({ ...paging.numberedQuery, type: Type.Optional(CapabilityType) }, strict);

/** Members of a list of capabilities beside its data. */
const capabilityListReply = { ...listReplies.longOf, counts: CapabilityCounts };

/** Converts a capability to the API's shape; members of a wrong type are left out. */
function showDescribed({
  name,
  type,
  described,
  enabled,
  pending,
}: McpCapability): Static<typeof SharedCapability> {
  const { title, description, icons, execution, annotations, arguments: parameters, size, uri } = described;
  return {
    name,
    type,
    title: textOf(title) ?? null,
    description: textOf(description) ?? null,
    enabled,
    icons: listOf(icons),
    input_schema: objectOf(described['inputSchema']),
    output_schema: objectOf(described['outputSchema']),
    execution: objectOf(execution),
    annotations: objectOf(annotations),
    arguments: listOf(parameters),
    uri: textOf(uri),
    uri_template: textOf(described['uriTemplate']),
    mime_type: textOf(described['mimeType']),
    size: typeof size === 'number' ? size : undefined,
    ...(pending !== undefined && { status: 'changed', pending: showPending(pending.described) }),
  };
}

function showPending(described: McpCapability['described']): Static<typeof Pending> {
  return {
    title: textOf(described['title']) ?? null,
    description: textOf(described['description']) ?? null,
    input_schema: objectOf(described['inputSchema']),
    output_schema: objectOf(described['outputSchema']),
    annotations: objectOf(described['annotations']),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function listOf(value: unknown): unknown[] | undefined {
  return Array.isArray(value) ? value : undefined;
}

function objectOf(value: unknown): Record<string, unknown> | undefined {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? { ...value } : undefined;
}

const countedAs = {
  tool: 'tools',
  prompt: 'prompts',
  resource: 'resources',
  resource_template: 'resource_templates',
} as const satisfies Readonly<Record<McpCapabilityType, keyof Static<typeof CapabilityCounts>>>;

/** Number of capabilities of each type. */
function countCapabilities(
  capabilities: readonly Pick<McpCapability, 'type' | 'enabled'>[],
): Static<typeof CapabilityCounts> {
  const none = () => ({ total: 0, enabled: 0 });
  const counts = { tools: none(), prompts: none(), resources: none(), resource_templates: none() };
  for (const { type, enabled } of capabilities) {
    const count = counts[countedAs[type]];
    count.total += 1;
    if (enabled) count.enabled += 1;
  }
  return counts;
}

/** A page of the capabilities of a type, converted by `show`, with the counts of all. */
function capabilityPage<C extends Pick<McpCapability, 'type' | 'enabled'>, S>(
  capabilities: readonly C[],
  { page, type }: { readonly page: Page; readonly type: McpCapabilityType | undefined },
  show: (capability: C) => S,
) {
  const wanted = type === undefined ? capabilities : capabilities.filter((one) => one.type === type);
  const data = wanted.slice(page.offset, page.offset + page.limit);
  return {
    ...listReplies.long(page, { total: wanted.length, data }, data.map(show)),
    counts: countCapabilities(capabilities),
  };
}

/** For the reference. */
const capabilityExample: Static<typeof SharedCapability> = {
  name: 'find_tickets',
  type: 'tool',
  title: 'Find tickets',
  description: 'By words.',
  enabled: true,
  input_schema: { type: 'object', properties: { words: { type: 'string' } } },
};

/** For the reference. */
const countsExample: Static<typeof CapabilityCounts> = {
  tools: { total: 1, enabled: 1 },
  prompts: { total: 0, enabled: 0 },
  resources: { total: 0, enabled: 0 },
  resource_templates: { total: 0, enabled: 0 },
};

/** Capabilities of a server, counted and merged. */
export const capabilityCounts = {
  Schema: CapabilityCounts,
  of: countCapabilities,
  example: countsExample,
  key: capabilityKey,
  merged: mergedCapabilities,
};

/** Upper bound of mistakes in one answer: the search for each suggestion compares all names. */
const maxMistakes = 20;
const comparedLength = 64;

const GivenCapability = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 1024, description: 'Name at the server.' }),
    type: CapabilityType,
    enabled: Type.Boolean(),
  },
  strict,
);

/** Body that enables and disables capabilities; others stay unchanged. */
const CapabilitiesBody = Type.Object(
  { capabilities: Type.Array(GivenCapability, { minItems: 1, maxItems: 4000 }) },
  strict,
);

/** The same of an integration, where changes of tools are accepted. */
const IntegrationCapabilitiesBody = Type.Object(
  {
    capabilities: Type.Array(
      Type.Object(
        {
          ...GivenCapability.properties,
          accept: Type.Optional(
            Type.Boolean({
              description:
                'Accepts the pending description of a changed tool. Send If-Match with the version that was read, and nothing else is accepted.',
            }),
          ),
        },
        strict,
      ),
      { minItems: 1, maxItems: 4000 },
    ),
  },
  strict,
);

/** Key of a capability: names are unique within a type. */
function capabilityKey({ type, name }: { readonly type: McpCapabilityType; readonly name: string }) {
  return `${type} ${name}`;
}

/**
 * The entries of a body, by capability key. Throws `invalid_request` for a capability that the server does not offer
 * (with the nearest name), for a repeated one, and for one whose member `refused` is refused by `refusal`.
 */
function givenCapabilities<Given extends Static<typeof GivenCapability>>(
  given: readonly Given[],
  offered: readonly McpCapability[],
  refusal: (one: Given, offered: McpCapability) => string | undefined,
  refused: 'enabled' | 'accept' = 'enabled',
): ReadonlyMap<string, Given> {
  const known = new Map(offered.map((one) => [capabilityKey(one), one]));
  const said = new Map<string, Given>();
  const mistakes: Mistake[] = [];
  for (const [index, one] of given.entries()) {
    if (mistakes.length === maxMistakes) break;
    const path = `/capabilities/${index}`;
    const key = capabilityKey(one);
    const found = known.get(key);
    if (found === undefined) mistakes.push({ path: `${path}/name`, message: unknownName(one, offered) });
    else if (said.has(key)) mistakes.push({ path: `${path}/name`, message: 'is there twice; keep one' });
    else {
      const message = refusal(one, found);
      if (message !== undefined) mistakes.push({ path: `${path}/${refused}`, message });
    }
    said.set(key, one);
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return said;
}

function unknownName(
  { name, type }: Static<typeof GivenCapability>,
  offered: readonly McpCapability[],
): string {
  const names = offered.filter((one) => one.type === type).map((one) => one.name.slice(0, comparedLength));
  const near = nearest(name.slice(0, comparedLength), names);
  const kind = type.replace('_', ' ');
  if (near !== undefined) return `names no ${kind} of the server; did you mean "${near}"?`;
  const others = offered.find((one) => one.name === name);
  if (others !== undefined)
    return `names no ${kind} of the server, but a ${others.type.replace('_', ' ')}; correct its type`;
  return `names no ${kind} that the server offered when it was last asked; its /capabilities lists them, its /metadata?refresh=true asks again`;
}

const path = '/mcp-integrations/{mcpIntegrationId}/capabilities';
const Params = Type.Object({ mcpIntegrationId: Identifier });
const CapabilityReply = Type.Object({
  ...SharedCapability.properties,
  created_at: Type.String({ description: 'Time at which the server first offered it.' }),
  last_updated_at: Type.String({
    description: 'Time of its last change, or when it was last switched on or off.',
  }),
});
const times = { created_at: '2026-11-22T09:00:00.000Z', last_updated_at: '2026-11-22T09:00:00.000Z' };

/** The routes of an MCP integration's capabilities. */
export function mcpIntegrationCapabilityRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), updateRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_capabilities.list',
    method: 'GET',
    path,
    summary:
      'Capabilities of the server at the last handshake (see its metadata), in the order of the server',
    scope: access.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: CapabilityQuery,
    reply: Type.Object({ ...capabilityListReply, data: Type.Array(CapabilityReply) }),
    examples: {
      response: {
        object: 'list',
        total: 1,
        has_more: false,
        data: [{ ...capabilityExample, ...times }],
        counts: countsExample,
      },
    },
    async handle({ params, query, key, read, sendVersion }) {
      const { type, ...asked } = query;
      const page = paging.numberedOf(asked);
      const named = { slug: params.mcpIntegrationId };
      const record = await read((reader) => access.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      return capabilityPage(record.data.capabilities, { page, type }, (one) => ({
        ...showDescribed(one),
        created_at: new Date(one.createdAt).toISOString(),
        last_updated_at: new Date(one.updatedAt).toISOString(),
      }));
    },
  });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_capabilities.update',
    method: 'PUT',
    path,
    summary: 'Switches capabilities of the server on or off, for every workspace; accepts changes of tools',
    scope: access.scopes('update'),
    audit: 'update',
    params: Params,
    body: IntegrationCapabilitiesBody,
    reply: Type.Object({ success: Type.Boolean() }),
    examples: {
      request: { capabilities: [{ name: 'delete_ticket', type: 'tool', enabled: false }] },
      response: { success: true },
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const now = clock.now();
      const version = await write(async (writer) => {
        const before = await access.visible(writer, key, { slug: params.mcpIntegrationId }, 'update');
        requireVersion(before.version);
        const said = givenCapabilities(body.capabilities, before.data.capabilities, unacceptable, 'accept');
        const capabilities = before.data.capabilities.map((one): McpCapability => {
          const { enabled = one.enabled, accept = false } = said.get(capabilityKey(one)) ?? {};
          if (accept)
            return { ...one, digest: undefined, ...one.pending, pending: undefined, enabled, updatedAt: now };
          return enabled === one.enabled ? one : { ...one, enabled, updatedAt: now };
        });
        const after = await storedRecords.change(
          writer,
          before,
          { data: { ...before.data, capabilities } },
          key,
          now,
        );
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return { success: true };
    },
  });
}

function unacceptable(
  { accept = false }: { readonly accept?: boolean },
  { pending }: McpCapability,
): string | undefined {
  if (!accept || pending !== undefined) return undefined;
  return 'cannot be true: no changed description waits to be accepted; GET the capabilities, or /metadata?refresh=true to ask the server, and leave "accept" out';
}

const serverPath = '/mcp-servers/{mcpServerId}/capabilities';
const ServerParams = Type.Object({ mcpServerId: Identifier });
const ServerCapabilityReply = Type.Object({
  ...SharedCapability.properties,
  integration_enabled: Type.Boolean({
    description: 'A capability that is off in the integration is off everywhere.',
  }),
});

/** The routes of an MCP server's capabilities in its workspace. */
export function mcpServerCapabilityRoutes(scope: Scope): readonly RouteDefinition[] {
  return [serverListRoute(), serverUpdateRoute(scope)];
}

function serverListRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_capabilities.list',
    method: 'GET',
    path: serverPath,
    summary:
      'Capabilities of an MCP server; each is on unless the integration or the workspace switched it off',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: ServerParams,
    query: CapabilityQuery,
    reply: Type.Object({ ...capabilityListReply, data: Type.Array(ServerCapabilityReply) }),
    examples: {
      response: {
        object: 'list',
        total: 1,
        has_more: false,
        counts: countsExample,
        data: [{ ...capabilityExample, integration_enabled: true }],
      },
    },
    async handle({ params, query, key, read, sendVersion }) {
      const { type, ...asked } = query;
      const page = paging.numberedOf(asked);
      const { server, integration } = await read((reader) =>
        visibleServer(reader, key, { idOrSlug: params.mcpServerId }),
      );
      sendVersion(server.version);
      return capabilityPage(mergedCapabilities(server, integration), { page, type }, (one) => ({
        ...showDescribed(one),
        integration_enabled: one.integrationEnabled,
      }));
    },
  });
}

function serverUpdateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_capabilities.update',
    method: 'PUT',
    path: serverPath,
    summary: 'Switches capabilities of an MCP server on or off, for its workspace',
    scope: 'mcp_servers.update',
    audit: 'update',
    params: ServerParams,
    body: CapabilitiesBody,
    reply: Type.Object({ success: Type.Boolean() }),
    examples: {
      request: { capabilities: [{ name: 'delete_ticket', type: 'tool', enabled: false }] },
      response: { success: true },
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const version = await write(async (writer) => {
        const { server: before, integration } = await visibleServer(writer, key, {
          idOrSlug: params.mcpServerId,
        });
        requireVersion(before.version);
        const said = givenCapabilities(body.capabilities, integration.data.capabilities, (one, offered) =>
          one.enabled && !offered.enabled
            ? `cannot be true: the integration "${integration.slug}" has switched it off for every workspace`
            : undefined,
        );
        // Enabled capabilities follow the integration, so only disabled ones are stored.
        const kept = before.data.capabilities.filter((one) => !said.has(capabilityKey(one)));
        const off = body.capabilities
          .filter(({ enabled }) => !enabled)
          .map(({ type, name }) => ({ type, name, enabled: false }));
        const data: McpServerData = { ...before.data, capabilities: [...kept, ...off] };
        const after = await storedRecords.change(writer, before, { data }, key, clock.now());
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return { success: true };
    },
  });
}

/** Capabilities of a server; enabled unless the integration or the workspace disabled them. */
function mergedCapabilities(
  { data }: StoredRecord<'mcp_server'>,
  integration: StoredRecord<'mcp_integration'>,
): readonly (McpCapability & { readonly integrationEnabled: boolean })[] {
  const own = new Map(data.capabilities.map((one) => [capabilityKey(one), one.enabled]));
  return integration.data.capabilities.map((one) => ({
    ...one,
    enabled: one.enabled && (own.get(capabilityKey(one)) ?? true),
    integrationEnabled: one.enabled,
  }));
}
