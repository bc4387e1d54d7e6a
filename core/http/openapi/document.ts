import type { CompiledPipelines } from '../route-table.ts';
import { type DescribedServer, DocumentWriter, type OpenApiDocument } from './document-writer.ts';
import {
  type DocumentObject,
  type GatewayOperation,
  inPath,
  inQuery,
  oneOf,
  openObject,
  type Operation,
  type OperationBody,
  type OperationParameter,
} from './operation.ts';
import { jobOperations } from './job-operations.ts';
import { modelOperations } from './model-operations.ts';
import { Type } from 'typebox';
import { staticPage, type StaticPage } from '../home-page.ts';
import { renderReference, style } from './render-reference.ts';
import { featureVariables } from '../../access/features.ts';
import {
  allowedValues,
  requiredKeys,
  resolveReference,
  schemaMap,
  schemaObject,
  type SchemaObject,
  schemaTypes,
  unionBranches,
} from '../../config/describe-schema.ts';
import type { RouteDefinition } from '../../pipeline/define-route.ts';
import { createHash } from 'node:crypto';

/** Name of that style in a content security policy. */
const styleHash = `sha256-${createHash('sha256').update(style).digest('base64')}`;

interface Page extends Pick<Operation, 'id' | 'path' | 'summary' | 'access'> {
  readonly answer: string;
  readonly response: OperationBody;
}

const text = { type: 'string' };

const pages: readonly Page[] = [
  {
    id: 'operations.health',
    path: '/healthz',
    access: 'anybody',
    summary: 'Whether the process is alive',
    answer: 'It is.',
    response: {
      type: 'application/json',
      schema: Type.Object({ status: Type.Literal('ok') }),
      example: { status: 'ok' },
    },
  },
  {
    id: 'operations.readiness',
    path: '/readyz',
    access: 'anybody',
    summary: 'Whether this process can serve requests',
    answer: 'It can; 503 when it cannot, or when it is about to stop. Stores that are away are `degraded`.',
    response: {
      type: 'application/json',
      schema: Type.Object({
        status: oneOf(['ready', 'not ready', 'draining']),
        reasons: Type.Optional(
          Type.Array(Type.String(), { description: 'Reason for not being ready; absent if ready.' }),
        ),
        degraded: Type.Array(Type.String(), {
          description:
            'Dependencies that do not work. Requests are served without them, with reduced function.',
        }),
        dependencies: Type.Record(Type.String(), Type.String(), {
          description: '`ok`, or the reason why it does not answer.',
        }),
      }),
      example: { status: 'ready', degraded: [], dependencies: { journal: 'ok' } },
    },
  },
  {
    id: 'operations.status',
    path: '/status',
    access: 'operators',
    summary: 'Status of the running gateway',
    answer: 'The generation that serves.',
    response: {
      type: 'application/json',
      schema: openObject({ status: oneOf(['serving', 'draining']), generation: Type.String() }),
      example: { status: 'serving', generation: '0f3a91b2c4d5' },
    },
  },
  {
    id: 'operations.metrics',
    path: '/metrics',
    access: 'operators',
    summary: 'Metrics for Prometheus',
    answer: 'The figures.',
    response: { type: 'text/plain', schema: text, example: 'weir_requests_total 1\n' },
  },
  {
    id: 'operations.openapi',
    path: '/openapi.json',
    access: 'operators',
    summary: 'This document',
    answer: 'OpenAPI 3.1.',
    response: {
      type: 'application/json',
      schema: openObject({ openapi: Type.String() }),
      example: { openapi: '3.1.1' },
    },
  },
  {
    id: 'operations.docs',
    path: '/docs',
    access: 'operators',
    summary: 'This document as a readable page',
    answer: 'A page.',
    response: { type: 'text/html', schema: text, example: '<!doctype html>' },
  },
];

/** Pages for operators, served without the base path. */
const operationalOperations: readonly Operation[] = pages.map(({ response, ...page }) => ({
  ...page,
  method: 'GET',
  tag: 'Operations',
  unprefixed: true,
  errors: 'none',
  response: [response],
}));

const anything = inPath(
  'provider_endpoint',
  'assistants',
  'Any path of the provider; it may hold slashes, which are sent as they are.',
);
const body = { type: '*/*', schema: {}, example: { name: 'Helper' } };
const answered = { type: '*/*', schema: {}, example: { id: 'asst_1', object: 'assistant' } };

const passed =
  'Bodies of all types pass unchanged in both directions; the request is logged like any other. This operation serves all paths without their own operation.';
const always =
  'The same, also for paths of administration routes: the path after `/proxy` always goes to the provider.';

/** One operation per method, for every path below the base path or below `/proxy`. */
function passThrough(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'): readonly GatewayOperation[] {
  const verb = method.toLowerCase();
  const sendsBody = method !== 'GET' && method !== 'DELETE';
  const shared: Omit<GatewayOperation, 'id' | 'path' | 'summary'> = {
    endpoint: 'proxy',
    method,
    parameters: [anything],
    response: [answered],
    request: sendsBody ? [body] : [],
    requestRequired: false,
  };
  return [
    {
      ...shared,
      id: `proxy.${verb}`,
      path: '/{provider_endpoint}',
      summary: 'Any other endpoint of the provider',
      description: passed,
    },
    {
      ...shared,
      id: `proxy.always.${verb}`,
      path: '/proxy/{provider_endpoint}',
      summary: 'Any endpoint of the provider',
      description: always,
    },
  ];
}

const mcpSummaries = {
  POST: 'Messages to MCP servers',
  GET: 'Stream of what MCP servers say by themselves',
  DELETE: 'Ends a session with MCP servers',
};

/** The Streamable HTTP transport of MCP. Paths of single servers would be ambiguous in a document: `/{id}/mcp`, `/logs/{id}`. */
function mcpOperation(method: keyof typeof mcpSummaries): GatewayOperation {
  return {
    endpoint: 'mcp',
    id: `mcp.${method.toLowerCase()}`,
    method,
    path: '/mcp',
    summary: mcpSummaries[method],
    errors: 'mcp',
    description:
      'The Streamable HTTP transport of the Model Context Protocol, for all servers that the key may use together; `/{slug}/mcp` is the same for one of them. Needs the scope `mcp.invoke`.',
    ...(method === 'POST' && {
      request: [
        {
          type: 'application/json',
          schema: { type: 'object' },
          example: { jsonrpc: '2.0', id: 1, method: 'ping' },
        },
      ],
    }),
    answer: 'JSON-RPC, as one document or as server-sent events.',
    response: [],
  };
}

/** Endpoints without a model of their own: WebSockets, and every other endpoint of a provider. */
const proxyOperations: readonly (readonly [tag: string, operations: readonly GatewayOperation[]])[] = [
  [
    'Realtime',
    [
      {
        endpoint: 'realtime',
        id: 'realtime.connect',
        method: 'GET',
        path: '/realtime',
        status: 101,
        summary: 'WebSocket to the provider',
        description:
          'Needs `connection: Upgrade` and `upgrade: websocket`. Browsers send their key and the other headers of the gateway as subprotocols.',
        parameters: [inQuery('model', 'A model of the provider.', { type: 'string' })],
        answer: 'The provider has switched; bytes are relayed both ways.',
        response: [],
      },
    ],
  ],
  ['MCP', (['POST', 'GET', 'DELETE'] as const).map(mcpOperation)],
  ['Any endpoint', (['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const).flatMap(passThrough)],
];

/**
 * Describes the interface of these pipelines: endpoints of providers that a pipeline serves, the administration routes
 * that plugins contribute, and the pages for operators. Built anew on every call.
 */
export function buildOpenApi(compiled: CompiledPipelines, server: DescribedServer): OpenApiDocument {
  const writer = new DocumentWriter(server);
  for (const operation of operationsOf(compiled)) writer.add(operation);
  return writer.finish();
}

/** Served operations, by tag. A contributed route replaces an endpoint of providers with the same path. */
function operationsOf(compiled: CompiledPipelines): readonly Operation[] {
  const routed = [...modelOperations, ...jobOperations, ...proxyOperations].flatMap(([tag, operations]) =>
    operations.filter((one) => isServed(compiled, one)).map((one) => routedOperation(one, tag)),
  );
  const contributed = compiled.pipelines
    .filter((pipeline) => pipeline.match.routes === 'contributed')
    .flatMap((pipeline) => pipeline.routes.map(({ route }) => administrationOperation(route)));
  return [...routed, ...contributed, ...operationalOperations];
}

function isServed(
  { routes }: CompiledPipelines,
  { method, path }: Pick<Operation, 'method' | 'path'>,
): boolean {
  const proxied = path.startsWith('/proxy/');
  const below = (proxied ? path.slice('/proxy'.length) : path).replaceAll(/\{\w+\}/g, 'x');
  const matched = routes.match(method, below, proxied);
  return matched !== undefined && matched.route === undefined;
}

/** Description of the serving generation's interface, for programs (`/openapi.json`) and for people (`/docs`). */
export interface ReferencePages {
  document(): StaticPage;
  reading(): StaticPage;
}

interface ServingPipelines {
  readonly compiled: CompiledPipelines;
}

/** Forbids the page to load, send or run anything; allows its one style by the hash. */
const policy = `default-src 'none'; style-src '${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Builds both pages at their first request, once for every generation. */
export function createReferencePages(
  server: DescribedServer,
  current: () => ServingPipelines,
): ReferencePages {
  const made = new WeakMap<ServingPipelines, { document: StaticPage; reading: StaticPage }>();
  const pages = () => {
    const generation = current();
    const present = made.get(generation);
    if (present !== undefined) return present;
    const described = buildOpenApi(generation.compiled, server);
    const both = {
      document: staticPage(JSON.stringify(described), { 'content-type': 'application/json' }),
      reading: staticPage(renderReference(described), {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': policy,
        'referrer-policy': 'no-referrer',
      }),
    };
    made.set(generation, both);
    return both;
  };
  return { document: () => pages().document, reading: () => pages().reading };
}

/** Depth at which the example of a recursive schema ends. */
const deepest = 6;

const textByFormat: Readonly<Record<string, string>> = {
  uuid: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  'date-time': '2026-11-21T09:00:00.000Z',
  date: '2026-11-21',
  email: 'ann@example.com',
  uri: 'https://service.example/path',
};

/**
 * An example value for the reference: the schema's own example or default, else one built from its types, with every
 * member. Undefined where no value can be derived (most patterns).
 */
export function exampleOfSchema(schema: unknown, name = ''): unknown {
  const root = schemaObject(schema);
  return make(root, { root, name, depth: 0 });
}

interface Place {
  readonly root: SchemaObject;
  /** Name of the member, which a text without a format repeats. */
  readonly name: string;
  readonly depth: number;
}

function make(given: SchemaObject, place: Place): unknown {
  const schema = resolveReference(given, place.root);
  const { examples } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0] as unknown;
  if (schema['default'] !== undefined) return schema['default'];
  const allowed = allowedValues(schema);
  if (allowed !== undefined) return allowed[0];
  const deeper = { ...place, depth: place.depth + 1 };
  const branches = unionBranches(schema);
  const useful = branches.find((branch) => branch['type'] !== 'null');
  if (useful !== undefined) return make(useful, deeper);
  const type = schemaTypes(schema).find((one) => one !== 'null');
  if (type === 'object') return place.depth > deepest ? {} : makeObject(schema, deeper);
  if (type === 'array') {
    const item = place.depth > deepest ? undefined : make(schemaObject(schema['items']), deeper);
    return item === undefined ? [] : [item];
  }
  return makeScalar(schema, type, place.name);
}

function makeObject(schema: SchemaObject, place: Place): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const [name, member] of schemaMap(schema, 'properties')) {
    const value = member['deprecated'] === true ? undefined : make(member, { ...place, name });
    if (value !== undefined) members[name] = value;
  }
  return members;
}

function makeScalar(schema: SchemaObject, type: string | undefined, name: string): unknown {
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return makeNumber(schema);
  return type === 'string' ? makeText(schema, name) : null;
}

function makeNumber({ minimum, maximum }: SchemaObject): number {
  const least = typeof minimum === 'number' ? Math.max(minimum, 1) : 1;
  return typeof maximum === 'number' ? Math.min(least, maximum) : least;
}

function makeText(schema: SchemaObject, name: string): string | undefined {
  const { format, pattern, minLength = 0, maxLength } = schema;
  if (typeof format === 'string') return textByFormat[format];
  const isInstant = typeof maxLength !== 'number' && /_at$|^timestamp$/.test(name);
  const longest = typeof maxLength === 'number' ? maxLength : undefined;
  const words = isInstant
    ? (textByFormat['date-time'] as string)
    : name.replace(/^\$/, '').slice(0, longest) || 'text';
  const candidates = [words, ...plausibleTexts].filter(
    (text) => text.length >= Number(minLength) && text.length <= (longest ?? Infinity),
  );
  if (typeof pattern !== 'string') return candidates[0] ?? words.padEnd(Number(minLength), words);
  const expression = new RegExp(pattern, 'u');
  return candidates.find((text) => expression.test(text));
}

/** Candidates for patterns: an id, a slug, an address, a version, a time. */
const plausibleTexts = [
  ...Object.values(textByFormat),
  ...['ws-laboratory-abcdef', 'laboratory', 'Laboratory', '1.0.0', '2026-11-21', '1'],
];

const ifMatch: OperationParameter = {
  name: 'if-match',
  in: 'header',
  required: false,
  schema: { type: 'string' },
  example: '"3"',
  description:
    '`etag` of the record as last read: the request is refused with 412 if the record has changed since.',
};

/** The operation of an administration route, derived from its declaration alone. */
export function administrationOperation(route: RouteDefinition): Operation {
  const { id, method, path, summary, audit, examples, feature } = route;
  const scopes = typeof route.scope === 'string' ? [route.scope] : route.scope;
  const parameters = [...parametersOf(route.params, 'path'), ...parametersOf(route.query, 'query')];
  const declared = new Set(parameters.filter((one) => one.in === 'path').map(({ name }) => name));
  for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
    if (!declared.has(name))
      parameters.push({ name, in: 'path', required: true, schema: { type: 'string' } });
  }
  if (audit !== null && path.includes('{')) parameters.push(ifMatch);
  return {
    id,
    method,
    path,
    summary,
    parameters,
    tag: tagOf(path),
    ...(route.deprecated === true && { deprecated: true }),
    description:
      (scopes.length === 0
        ? 'Every caller may ask.'
        : `Needs the scope ${scopes.map((scope) => `\`${scope}\``).join(' or ')}.`) +
      (audit === null ? '' : ' Stands in the audit log.') +
      (feature === undefined ? '' : ` Refused while \`${featureVariables[feature]}\` is \`OFF\`.`),
    ...(route.body === undefined
      ? {}
      : {
          request: [
            {
              type: 'application/json',
              schema: route.body,
              ...exampleOf(examples?.request ?? exampleOfSchema(route.body)),
            },
          ],
          requestRequired: true,
        }),
    answer: 'Done.',
    response: [
      {
        type: route.media ?? 'application/json',
        schema: route.reply,
        ...exampleOf(examples?.response ?? exampleOfSchema(route.reply)),
      },
    ],
    errors: 'admin',
    access: route.identify === undefined ? 'key' : 'anybody',
    extensions: { 'x-required-scope': route.scope, 'x-audit-action': audit },
  };
}

function exampleOf(example: unknown): { example?: unknown } {
  return example === undefined ? {} : { example };
}

/** `/virtual-keys/{slug}` has the tag "Administration: virtual keys". */
function tagOf(path: string): string {
  const first = path.split('/').find((segment) => segment !== '' && segment !== 'admin') ?? '';
  return `Administration: ${first.replaceAll(/[-_]/g, ' ')}`;
}

function parametersOf(schema: RouteDefinition['params'], place: 'path' | 'query'): OperationParameter[] {
  if (schema === undefined) return [];
  const whole = schemaObject(schema);
  const required = new Set(requiredKeys(whole));
  return [...schemaMap(whole, 'properties')].map(([name, each]) => {
    const { description, ...own } = each as DocumentObject & { description?: unknown };
    return {
      name,
      in: place,
      schema: own,
      ...exampleOf(exampleOfSchema(own, name)),
      required: place === 'path' || (required.has(name) && own['default'] === undefined),
      ...(typeof description === 'string' ? { description } : {}),
    };
  });
}

/** The complete operation: tag, headers that control the gateway, and errors of its dialect. */
function routedOperation(one: GatewayOperation, tag: string): Operation {
  const { endpoint, errors = 'openai', answer = 'Answer of the provider.', ...rest } = one;
  const { requestRequired = true } = one;
  return {
    ...rest,
    tag,
    errors,
    answer,
    steered: true,
    access: 'key',
    requestRequired,
    extensions: { 'x-endpoint': endpoint },
  };
}
