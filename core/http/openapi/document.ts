import type { CompiledPipelines } from '../route-table.ts';
import { administrationOperation } from './administration-operation.ts';
import { type DescribedServer, DocumentWriter, type OpenApiDocument } from './document-writer.ts';
import {
  type GatewayOperation,
  inPath,
  inQuery,
  oneOf,
  openObject,
  type Operation,
  type OperationBody,
  routedOperation,
} from './operation.ts';
import { jobOperations } from './job-operations.ts';
import { modelOperations } from './model-operations.ts';
import { Type } from 'typebox';

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
