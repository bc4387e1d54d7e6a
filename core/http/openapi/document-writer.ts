import type { GatewayConfig } from '../../config/schema.ts';
import { chatAnswerSchemas } from './chat-answer.ts';
import { chatRequestSchemas } from './chat-request.ts';
import { embedSchema } from './embed-schema.ts';
import { errorReferences, errorResponses, refusedUnread, errorSchemas } from './error-responses.ts';
import { jobSchemas } from './job-schemas.ts';
import { modelSchemas } from './model-schemas.ts';
import type { DocumentObject, Operation, OperationBody } from './operation.ts';
import { alwaysAnswered, answerHeaders, steeringParameters } from './steering-headers.ts';

/** The version of the interface, which is not that of the software. */
export const interfaceVersion = '2.0.0';

/** An OpenAPI 3.1 document, plain JSON. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: DocumentObject;
  readonly servers: readonly DocumentObject[];
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentObject>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, DocumentObject>>>>;
}

/** Where the interface is served, and under which headers. */
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
      ...chatRequestSchemas,
      ...chatAnswerSchemas,
      ...modelSchemas,
      ...jobSchemas,
      ...errorSchemas,
    };
    for (const [name, schema] of Object.entries(shared))
      this.schemas.set(name, embedSchema(schema, name, this.schemas));
  }

  /** The first operation of a path and method serves; later ones are never reached. */
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
    const atRoot = { url: '/', description: 'The same without a prefix.' };
    return {
      openapi: '3.1.1',
      info: {
        title: 'Gateway and administration',
        version: interfaceVersion,
        description:
          'Requests to model providers in the wires that their clients speak, and the administration of who may send them.',
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

  /** Plugins name their own routes: two may have taken the same id. */
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
    return path === '/readyz' ? { 503: { description: 'Something that is needed does not answer.' } } : {};
  }
}

function securitySchemes(prefix: string): Readonly<Record<string, DocumentObject>> {
  return {
    ServiceKey: {
      ...{ type: 'apiKey', in: 'header', name: `${prefix}-api-key` },
      description: 'A key of this service.',
    },
    BearerKey: { type: 'http', scheme: 'bearer', description: 'The same key, as a bearer token.' },
    ProviderKey: {
      ...{ type: 'http', scheme: 'bearer' },
      description:
        'A key of the provider, beside that of this service, for a provider whose credential is not held here.',
    },
  };
}

function securityOf({ access, steered }: Operation): readonly DocumentObject[] {
  if (access === 'anybody') return [];
  const own = [{ ServiceKey: [] }, { BearerKey: [] }];
  if (access === 'operators') return [{}, ...own];
  return steered === true ? [...own, { ServiceKey: [], ProviderKey: [] }] : own;
}
