import type { GatewayConfig } from '../../config/schema.ts';
import { chatSchemas } from './chat-request.ts';
import {
  componentReference,
  type DocumentObject,
  embedSchema,
  type ErrorShape,
  type Operation,
  type OperationBody,
  orNull,
} from './operation.ts';
import { jobSchemas } from './job-operations.ts';
import { modelSchemas } from './model-schemas.ts';
import { type TSchema, Type } from 'typebox';
import { errorTable } from '../../errors/codes.ts';

interface SteeringHeader {
  readonly description: string;
  readonly schema: DocumentObject;
  readonly example: unknown;
  readonly deprecated?: boolean;
}

const text = { type: 'string' };
const shortText = { type: 'string', maxLength: 255 };
const only = (value: string) => ({ type: 'string', enum: [value] });
const names = 'names with commas between them, at most 64';

/** Headers that control the gateway, by their names without the prefix (`docs/headers.md`). */
const steering: Readonly<Record<string, SteeringHeader>> = {
  provider: {
    description: 'Name of the provider, or `@slug` of a configured provider, whose credential is then used.',
    schema: text,
    example: '@openai',
  },
  'virtual-key': {
    description: 'Slug of a configured provider. Use `provider` instead.',
    schema: text,
    example: 'openai',
    deprecated: true,
  },
  config: {
    description: 'Config that controls routing and retries: its slug, or the config itself as JSON.',
    schema: text,
    example: '{"retry":{"attempts":3}}',
  },
  'custom-host': {
    description: 'Replaces the address of the provider that `provider` names.',
    schema: { type: 'string', format: 'uri' },
    example: 'https://models.example/v1',
  },
  'fetch-integrated-models': {
    description: 'Lists the models of all configured providers, even if the request names one.',
    schema: only('true'),
    example: 'true',
  },
  'request-timeout': {
    description: 'Longest time of one attempt, in milliseconds.',
    schema: { type: 'integer', minimum: 1, maximum: 86_400_000 },
    example: 30_000,
  },
  'forward-headers': {
    description: `Headers that are forwarded to the provider even if the request is translated: ${names}.`,
    schema: text,
    example: 'x-tenant',
  },
  'sensitive-headers': {
    description: `Headers that are never forwarded to the provider, and are logged as a digest: ${names}.`,
    schema: text,
    example: 'x-session',
  },
  'strict-open-ai-compliance': {
    description: '`false`: answers keep data that the OpenAI format cannot express.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'false',
  },
  debug: {
    description: '`false`: no bodies are logged, and the cache is not used.',
    schema: only('false'),
    example: 'false',
  },
  explain: {
    description: 'Records the routing decisions of the request; needs an owner key or the scope `logs.view`.',
    schema: only('true'),
    example: 'true',
  },
  'cache-force-refresh': {
    description: 'Skips the lookup in the cache, and stores the new answer.',
    schema: only('true'),
    example: 'true',
  },
  'cache-namespace': {
    description: 'Partitions the cache by this text instead of by metadata and other client headers.',
    schema: text,
    example: 'tests',
  },
  'trace-id': { description: 'Groups requests in the log.', schema: shortText, example: 'checkout-7' },
  'span-id': { description: 'Id of this request within its trace.', schema: shortText, example: 'step-2' },
  'parent-span-id': { description: 'Id of the parent span.', schema: shortText, example: 'step-1' },
  'span-name': { description: 'Name of this request.', schema: shortText, example: 'summarise' },
  metadata: {
    description: 'JSON object of at most 64 keys, with 128 characters per key and value; it is logged.',
    schema: text,
    example: '{"team":"search"}',
  },
};

/** The headers as parameters of the document, by component name. `prefix` is `server.header_prefix`. */
function steeringParameters(prefix: string): Readonly<Record<string, DocumentObject>> {
  const entries = Object.entries(steering).map(([name, header]) => [
    `Header.${name}`,
    { name: `${prefix}-${name}`, in: 'header', required: false, ...header },
  ]);
  return Object.fromEntries(entries) as Record<string, DocumentObject>;
}

/** Headers that the gateway adds to answers, by component name. */
function answerHeaders(prefix: string): Readonly<Record<string, DocumentObject>> {
  const header = (description: string, schema: DocumentObject): DocumentObject => ({ description, schema });
  return {
    [`${prefix}-request-id`]: header('Under this id the log has the request.', text),
    [`${prefix}-trace-id`]: header('The trace of the request.', text),
    [`${prefix}-provider`]: header('The provider that was chosen, without `@`.', text),
    [`${prefix}-cache-status`]: header('Result of the cache.', {
      type: 'string',
      enum: ['HIT', 'SEMANTIC HIT', 'MISS', 'SEMANTIC MISS', 'REFRESH', 'DISABLED'],
    }),
    [`${prefix}-retry-attempt-count`]: header('Attempts after the first one; -1 when all failed.', {
      type: 'integer',
      minimum: -1,
    }),
    [`${prefix}-last-used-option-index`]: header('Target of the config that answered.', text),
  };
}

/** Headers of every answer; the others are on answers of requests to a provider. */
const alwaysAnswered: readonly string[] = ['request-id', 'trace-id'];

const Words = orNull(Type.String());

const schemas = {
  AdminError: Type.Object({
    success: Type.Literal(false),
    data: Type.Object({
      message: Type.String({ description: 'Cause of the error, and its remedy.' }),
      errorCode: Type.String({ pattern: '^AB0[1-9]$' }),
    }),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          path: Type.String({ description: 'JSON pointer to the invalid value.' }),
          message: Type.String(),
        }),
        { description: 'All mistakes in the request.' },
      ),
    ),
  }),
  OpenAiError: Type.Object({
    error: Type.Object({
      message: Type.String({ description: 'Cause of the error, and its remedy.' }),
      type: Type.String(),
      param: Type.Optional(orNull(Type.String(), 'The member, parameter or header at fault.')),
      code: Type.Optional(orNull(Type.String(), 'A code of the gateway, or what the provider reported.')),
    }),
    provider: Type.Optional(
      Type.String({ description: 'Provider that reported the error; absent if it is the gateway.' }),
    ),
  }),
  AnthropicError: Type.Object({
    type: Type.Literal('error'),
    error: Type.Object({ type: Type.String(), message: Type.String(), code: Type.Optional(Words) }),
    request_id: Type.Optional(Words),
  }),
  GeminiError: Type.Object({
    error: Type.Object({
      code: Type.Integer(),
      message: Type.String(),
      status: Type.Optional(Type.String()),
      details: Type.Optional(Type.Array(Type.Record(Type.String(), Type.Unknown()))),
    }),
  }),
  McpError: Type.Object({
    jsonrpc: Type.Literal('2.0'),
    id: Type.Union([Type.Null(), Type.String(), Type.Number()], {
      description: 'Of the refused message; null when the request as a whole was refused.',
    }),
    error: Type.Object({
      code: Type.Integer({ description: 'A code of JSON-RPC.' }),
      message: Type.String({ description: 'Cause of the error, and its remedy.' }),
      data: Type.Object({
        code: Type.String({ description: 'A code of the gateway.' }),
        request_id: Type.String(),
      }),
    }),
  }),
} satisfies Record<string, TSchema>;

/** The bodies of errors, by the names of the components. */
const errorSchemas: Readonly<Record<string, TSchema>> = schemas;

const componentOf: Readonly<Record<ErrorShape, keyof typeof schemas>> = {
  admin: 'AdminError',
  openai: 'OpenAiError',
  anthropic: 'AnthropicError',
  gemini: 'GeminiError',
  mcp: 'McpError',
};

interface CodedError {
  readonly code: string;
  readonly status: number;
  readonly type: string;
  readonly admin: string;
}

/** Error codes that only a request to a provider can return. */
const ofProviders =
  /^(provider_|upstream_|credentials_|custom_host_|hooks_failed|config_|invalid_config|request_timeout)/;

/** Error codes for clients of this shape. 499 is left out, because that client has disconnected. */
function codesOf(shape: ErrorShape): readonly CodedError[] {
  const all = Object.entries(errorTable).map(([code, row]) => ({ code, ...row }));
  return all.filter(({ code, status }) => status !== 499 && (shape !== 'admin' || !ofProviders.test(code)));
}

function statusesOf(shape: ErrorShape): readonly number[] {
  return [...new Set(codesOf(shape).map(({ status }) => status))].sort((one, other) => one - other);
}

function exampleOf(shape: ErrorShape, { code, status, type, admin }: CodedError): DocumentObject {
  const message = 'Cause of the error, and its remedy.';
  if (shape === 'admin') return { success: false, data: { message, errorCode: admin } };
  if (shape === 'anthropic') return { type: 'error', error: { type, message } };
  if (shape === 'mcp')
    return { jsonrpc: '2.0', id: null, error: { code: -32_000, message, data: { code, request_id: '…' } } };
  if (shape === 'gemini') return { error: { code: status, message } };
  return { error: { message, type, param: null, code } };
}

const responseName = (shape: ErrorShape, status: number): string => `${componentOf[shape]}.${status}`;

/** Every error as a response of the document, by component name: `OpenAiError.429`. */
function errorResponses(): Readonly<Record<string, DocumentObject>> {
  const responses: Record<string, DocumentObject> = {};
  for (const shape of ['admin', 'openai', 'anthropic', 'gemini', 'mcp'] as const) {
    for (const status of statusesOf(shape)) {
      const codes = codesOf(shape).filter((one) => one.status === status);
      responses[responseName(shape, status)] = {
        description: codes.map(({ code }) => `\`${code}\``).join(', '),
        content: {
          'application/json': {
            schema: { $ref: componentReference(componentOf[shape]) },
            examples: Object.fromEntries(codes.map((one) => [one.code, { value: exampleOf(shape, one) }])),
          },
        },
      };
    }
  }
  responses[headersTooLarge] = {
    description: 'The headers are larger than 64 KiB. The gateway closes the connection.',
    content: {
      'application/json': {
        schema: { $ref: componentReference('OpenAiError') },
        examples: {
          invalid_request: {
            value: exampleOf('openai', {
              code: 'invalid_request',
              status: 431,
              type: 'invalid_request_error',
              admin: '',
            }),
          },
        },
      },
    },
  };
  return responses;
}

const headersTooLarge = 'HeadersTooLarge';

/** Responses of every operation that are sent before the request is parsed. */
const refusedUnread: Readonly<Record<string, DocumentObject>> = {
  431: { $ref: `#/components/responses/${headersTooLarge}` },
};

/** References to the errors of one shape, by status. */
function errorReferences(shape: ErrorShape): Readonly<Record<string, DocumentObject>> {
  const entries = statusesOf(shape).map((status) => [
    String(status),
    { $ref: `#/components/responses/${responseName(shape, status)}` },
  ]);
  return Object.fromEntries(entries) as Record<string, DocumentObject>;
}

/** The version of the interface, which is not that of the software. */
const interfaceVersion = '2.0.0';

/** An OpenAPI 3.1 document, plain JSON. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: DocumentObject;
  readonly servers: readonly DocumentObject[];
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentObject>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, DocumentObject>>>>;
}

/** Base path and header prefix of the interface. */
export type DescribedServer = Pick<GatewayConfig['server'], 'base_path' | 'header_prefix'>;

const methodsInOrder = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Collects operations into one document; a writer is used once. */
export class DocumentWriter {
  private readonly server: DescribedServer;
  private readonly paths = new Map<string, Map<string, DocumentObject>>();
  private readonly unprefixed = new Set<string>();
  private readonly schemas = new Map<string, unknown>();
  private readonly tags = new Set<string>();
  private readonly ids = new Set<string>();
  private readonly answered: Readonly<Record<string, DocumentObject>>;
  private readonly steering: readonly DocumentObject[];

  constructor(server: DescribedServer) {
    this.server = server;
    this.answered = answerHeaders(server.header_prefix);
    this.steering = Object.keys(steeringParameters(server.header_prefix)).map((name) => ({
      $ref: `#/components/parameters/${name}`,
    }));
    const shared = {
      ...chatSchemas,
      ...modelSchemas,
      ...jobSchemas,
      ...errorSchemas,
    };
    for (const [name, schema] of Object.entries(shared))
      this.schemas.set(name, embedSchema(schema, name, this.schemas));
  }

  /** The first operation of a path and method wins, because later ones are never reached. */
  add(operation: Operation): void {
    const method = operation.method.toLowerCase();
    const present = this.paths.get(operation.path) ?? new Map<string, DocumentObject>();
    if (present.has(method)) return;
    present.set(method, this.operation(operation));
    this.paths.set(operation.path, present);
    this.tags.add(operation.tag);
    if (operation.unprefixed === true) this.unprefixed.add(operation.path);
  }

  /** The document of everything that was added. */
  finish(): OpenApiDocument {
    const { header_prefix: prefix, base_path: basePath } = this.server;
    const atRoot = { url: '/', description: 'The same paths without a prefix.' };
    return {
      openapi: '3.1.1',
      info: {
        title: 'Gateway and administration',
        version: interfaceVersion,
        description:
          'Requests to model providers in the wire formats of their clients, and the administration of the gateway.',
      },
      servers: basePath === '/' ? [{ url: '/' }] : [{ url: basePath }, atRoot],
      tags: [...this.tags].map((name) => ({ name })),
      paths: Object.fromEntries([...this.paths].map(([path, item]) => [path, this.pathItem(path, item)])),
      components: {
        schemas: Object.fromEntries(this.schemas) as Record<string, DocumentObject>,
        responses: errorResponses(),
        parameters: steeringParameters(prefix),
        headers: this.answered,
        securitySchemes: securitySchemes(prefix),
      },
    };
  }

  private pathItem(path: string, item: ReadonlyMap<string, DocumentObject>): Record<string, DocumentObject> {
    const members: Record<string, unknown> = {};
    if (this.unprefixed.has(path)) members['servers'] = [{ url: '/' }];
    for (const method of methodsInOrder) {
      const operation = item.get(method);
      if (operation !== undefined) members[method] = operation;
    }
    return members as Record<string, DocumentObject>;
  }

  private operation(one: Operation): DocumentObject {
    const { request = [], parameters = [], deprecated, description, status = 200 } = one;
    const id = this.uniqueId(one.id);
    const own = parameters.map((parameter) => ({
      ...parameter,
      schema: embedSchema(parameter.schema, id, this.schemas),
    }));
    const steering = one.steered === true ? this.steering : [];
    return {
      operationId: id,
      tags: [one.tag],
      summary: one.summary,
      ...(description === undefined ? {} : { description }),
      ...(deprecated === true ? { deprecated } : {}),
      parameters: [...own, ...steering],
      ...(request.length === 0
        ? {}
        : { requestBody: { required: one.requestRequired ?? false, content: this.content(id, request) } }),
      responses: {
        [status]: {
          description: one.answer,
          ...this.headersOf(one),
          ...(one.response.length === 0 ? {} : { content: this.content(id, one.response) }),
        },
        ...this.errorsOf(one),
        ...refusedUnread,
      },
      security: securityOf(one),
      ...one.extensions,
    };
  }

  /** Plugins name their own routes, so two may use the same id. */
  private uniqueId(id: string): string {
    let unique = id;
    for (let count = 2; this.ids.has(unique); count++) unique = `${id}.${count}`;
    this.ids.add(unique);
    return unique;
  }

  private content(id: string, bodies: readonly OperationBody[]): DocumentObject {
    const entries = bodies.map(({ type, schema, example }) => [
      type,
      {
        schema: embedSchema(schema, id, this.schemas),
        ...(example === undefined ? {} : { example }),
      },
    ]);
    return Object.fromEntries(entries) as DocumentObject;
  }

  private headersOf(one: Operation): DocumentObject {
    if (one.access !== 'key') return {};
    const always = new Set(alwaysAnswered.map((name) => `${this.server.header_prefix}-${name}`));
    const names = Object.keys(this.answered).filter((name) => one.steered === true || always.has(name));
    return {
      headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    };
  }

  private errorsOf({ errors, access, path }: Operation): DocumentObject {
    if (errors !== 'none') return errorReferences(errors);
    const refused = errorReferences('openai');
    if (access === 'operators') return { 401: refused['401'] };
    return path === '/readyz' ? { 503: { description: 'A required dependency does not answer.' } } : {};
  }
}

function securitySchemes(prefix: string): Readonly<Record<string, DocumentObject>> {
  return {
    ServiceKey: {
      type: 'apiKey',
      in: 'header',
      name: `${prefix}-api-key`,
      description: 'Service key of this gateway.',
    },
    BearerKey: { type: 'http', scheme: 'bearer', description: 'The same key, as a bearer token.' },
    ProviderKey: {
      type: 'http',
      scheme: 'bearer',
      description:
        'Key of the provider, in addition to the service key, for a provider whose credential is not stored in the gateway.',
    },
  };
}

function securityOf({ access, steered }: Operation): readonly DocumentObject[] {
  if (access === 'anybody') return [];
  const own = [{ ServiceKey: [] }, { BearerKey: [] }];
  if (access === 'operators') return [{}, ...own];
  return steered === true ? [...own, { ServiceKey: [], ProviderKey: [] }] : own;
}
