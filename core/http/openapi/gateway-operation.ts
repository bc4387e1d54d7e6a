import type { EndpointId } from '../../dialects/endpoint.ts';
import type { DocumentObject, Operation, OperationBody, OperationParameter } from './operation.ts';
import { component } from './component.ts';

/** What is said of an operation that goes to a provider; the rest is the same for all. */
export interface GatewayOperation extends Pick<Operation, 'id' | 'method' | 'path' | 'summary'> {
  readonly endpoint: EndpointId;
  readonly description?: string;
  readonly parameters?: readonly OperationParameter[];
  readonly unprefixed?: boolean;
  readonly errors?: Operation['errors'];
  readonly status?: number;
  readonly answer?: string;
  readonly request?: readonly OperationBody[];
  /** Default true. */
  readonly requestRequired?: boolean;
  readonly response: readonly OperationBody[];
}

/** A JSON body of a component's shape. */
export function json(name: string, example: unknown): OperationBody {
  return { type: 'application/json', schema: component(name), example };
}

/** Server-sent events, of which each has JSON of a component's shape as its data. `end`: what the last one says instead. */
export function events(name: string, example: string, end?: string): OperationBody {
  const last = end === undefined ? '' : ` The last one says \`${end}\`.`;
  const schema = {
    type: 'string',
    contentMediaType: 'text/event-stream',
    description: `The data of each event is JSON of the shape of \`contentSchema\`.${last}`,
    contentSchema: component(name),
  };
  return { type: 'text/event-stream', schema, example };
}

/** Bytes that pass through unread. */
export function bytes(type: string): OperationBody {
  return { type, schema: { type: 'string', format: 'binary' } };
}

/** A parameter in the path. */
export function inPath(name: string, example: string, description: string): OperationParameter {
  return { name, in: 'path', required: true, description, schema: { type: 'string' }, example };
}

/** An optional parameter in the query. */
export function inQuery(name: string, description: string, schema: DocumentObject): OperationParameter {
  return { name, in: 'query', required: false, description, schema };
}

/** The whole operation: its tag by its endpoint, the headers that steer, and the errors of its wire. */
export function routedOperation(one: GatewayOperation, tag: string): Operation {
  const { endpoint, errors = 'openai', answer = 'What the provider answered.', ...rest } = one;
  const { requestRequired = true } = one;
  return {
    ...rest,
    ...{ tag, errors, answer, steered: true, access: 'key', requestRequired },
    extensions: { 'x-endpoint': endpoint },
  };
}
