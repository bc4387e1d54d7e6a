import { featureVariables } from '../../access/features.ts';
import { requiredKeys, schemaMap, schemaObject } from '../../config/schema-object.ts';
import type { RouteDefinition } from '../../pipeline/define-route.ts';
import { exampleOfSchema } from './example-of-schema.ts';
import type { DocumentObject, Operation, OperationParameter } from './operation.ts';

const ifMatch: OperationParameter = {
  ...{ name: 'if-match', in: 'header', required: false, schema: { type: 'string' }, example: '"3"' },
  description:
    'The `etag` with which the record was answered: refused with 412 when the record has changed since.',
};

/** What the document says of an administration route, from its declaration alone. */
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
    ...{ id, method, path, summary, parameters },
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

/** `/virtual-keys/{slug}` is told under "Administration: virtual keys". */
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
      ...{ name, in: place, schema: own, ...exampleOf(exampleOfSchema(own, name)) },
      required: place === 'path' || (required.has(name) && own['default'] === undefined),
      ...(typeof description === 'string' ? { description } : {}),
    };
  });
}
