import { type Static, Type } from '../../core/pipeline/plugin.ts';
import type { McpCapability, McpCapabilityType } from '../../core/ports/record-kinds.ts';
import type { Page } from '../../core/ports/page.ts';
import { longList, longListReply, numberedPageQuery } from './page-query.ts';
import { orNull, strict } from './text-schema.ts';

/** What a server can offer. */
export const CapabilityType = Type.Union([
  Type.Literal('tool'),
  Type.Literal('prompt'),
  Type.Literal('resource'),
  Type.Literal('resource_template'),
]);

const AnyObject = Type.Optional(Type.Record(Type.String(), Type.Unknown()));
const AnyList = Type.Optional(Type.Array(Type.Unknown()));
const Text = Type.Optional(Type.String());

/** What the API shows of something that a server offers, for integrations and servers alike. */
export const SharedCapability = Type.Object({
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
});

const Count = Type.Object({ total: Type.Integer(), enabled: Type.Integer() });

/** How many capabilities there are of each type, on every page. */
export const CapabilityCounts = Type.Object({
  tools: Count,
  prompts: Count,
  resources: Count,
  resource_templates: Count,
});

/** Which capabilities are listed: a page from 1 (`page`) or from 0 (`current_page`), of all types or of one. */
export const CapabilityQuery = Type.Object(
  { ...numberedPageQuery(500), type: Type.Optional(CapabilityType) },
  strict,
);

/** What a list of capabilities answers with, beside them. */
export const capabilityListReply = { ...longListReply, counts: CapabilityCounts };

/** Puts something that a server offers into the shape of the API; members that are not what they should be are left out. */
export function showDescribed({
  name,
  type,
  described,
  enabled,
}: McpCapability): Static<typeof SharedCapability> {
  const { title, description, icons, execution, annotations, arguments: parameters, size, uri } = described;
  return {
    ...{ name, type, title: textOf(title) ?? null, description: textOf(description) ?? null, enabled },
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

/** How many there are of each type. */
export function countCapabilities(
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

/** A page of those of the type, shown by `show`, with the counts of all. */
export function capabilityPage<C extends Pick<McpCapability, 'type' | 'enabled'>, S>(
  capabilities: readonly C[],
  { page, type }: { readonly page: Page; readonly type: McpCapabilityType | undefined },
  show: (capability: C) => S,
) {
  const wanted = type === undefined ? capabilities : capabilities.filter((one) => one.type === type);
  const data = wanted.slice(page.offset, page.offset + page.limit);
  return {
    ...longList(page, { total: wanted.length, data }, data.map(show)),
    counts: countCapabilities(capabilities),
  };
}

/** For the reference. */
export const capabilityExample: Static<typeof SharedCapability> = {
  ...{ name: 'find_tickets', type: 'tool', title: 'Find tickets', description: 'By words.', enabled: true },
  input_schema: { type: 'object', properties: { words: { type: 'string' } } },
};

/** For the reference. */
export const countsExample: Static<typeof CapabilityCounts> = {
  tools: { total: 1, enabled: 1 },
  ...{ prompts: { total: 0, enabled: 0 }, resources: { total: 0, enabled: 0 } },
  resource_templates: { total: 0, enabled: 0 },
};
