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
} from '../../config/schema-object.ts';
import type { RouteDefinition } from '../../pipeline/define-route.ts';
import type { DocumentObject, Operation, OperationParameter } from './operation.ts';

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
      `Needs the scope ${scopes.map((scope) => `\`${scope}\``).join(' or ')}.` +
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
