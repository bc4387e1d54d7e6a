import assert from 'node:assert/strict';
import { test } from 'node:test';
import ts from 'typescript';
import { operationsIn, wholeDocument } from '../../../tests/kit/openapi-kit.ts';

type Json = Record<string, any>;

const quoted = (name: string): string => JSON.stringify(name);
const typeName = (name: string): string => name.replaceAll(/\W/g, '_');

/** The TypeScript type of a schema. */
function typeOf(schema: Json): string {
  if (schema['$ref']) return typeName(schema['$ref'].slice(schema['$ref'].lastIndexOf('/') + 1));
  const forms = schema['anyOf'] ?? schema['oneOf'];
  if (forms) return forms.map((form: Json) => `(${typeOf(form)})`).join(' | ');
  if ('const' in schema) return JSON.stringify(schema['const']);
  if (schema['enum']) return schema['enum'].map((value: unknown) => JSON.stringify(value)).join(' | ');
  if (Array.isArray(schema['type']))
    return schema['type'].map((type: string) => `(${typeOf({ ...schema, type })})`).join(' | ');
  if (schema['type'] === 'array') return `(${typeOf(schema['items'] ?? {})})[]`;
  if (schema['type'] === 'object') return objectType(schema);
  const plain: Json = {
    string: 'string',
    integer: 'number',
    number: 'number',
    boolean: 'boolean',
    null: 'null',
  };
  return plain[schema['type']] ?? 'unknown';
}

function objectType({
  properties = {},
  required = [],
  patternProperties,
  additionalProperties,
}: Json): string {
  const members = Object.entries<Json>(properties).map(
    ([name, member]) => `${quoted(name)}${required.includes(name) ? '' : '?'}: ${typeOf(member)};`,
  );
  const named = `{ ${members.join(' ')} }`;
  const [values] = Object.values<Json>(patternProperties ?? {});
  if (members.length > 0) return named;
  return values
    ? `Record<string, ${typeOf(values)}>`
    : additionalProperties === false
      ? '{}'
      : 'Record<string, unknown>';
}

/** One method per operation, and one type per component. */
function clientSource(document: Awaited<ReturnType<typeof wholeDocument>>['document']): string {
  const types = Object.entries(document.components['schemas']!).map(
    ([name, schema]) => `export type ${typeName(name)} = ${typeOf(schema)};`,
  );
  const methods = operationsIn(document).map(({ path, method, operation }) => {
    const own = operation['parameters'].filter((one: Json) => one['in'] === 'path' || one['in'] === 'query');
    const members = own.map(
      (one: Json) => `${quoted(one['name'])}${one['required'] ? '' : '?'}: ${typeOf(one['schema'])};`,
    );
    const body = operation['requestBody']?.content['application/json'];
    const answer = operation['responses']['200']?.content?.['application/json'];
    return `${quoted(operation['operationId'])}(parameters: { ${members.join(' ')} }${body ? `, body: ${typeOf(body.schema)}` : ''}): Promise<${answer ? typeOf(answer.schema) : 'unknown'}> { return this.send(${quoted(method)}, ${quoted(path)}, parameters${body ? ', body' : ''}); }`;
  });
  const send =
    'private readonly send: <T>(method: string, path: string, parameters: object, body?: unknown) => Promise<T>';
  const client = ['export class Client {', `constructor(${send}) {}`, ...methods, '}'];
  return [...types, ...client].join('\n');
}

/** What the compiler says, strictly, of the client and of somebody who uses it. */
function complaints(sources: Readonly<Record<string, string>>): string[] {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.directoryExists = () => true;
  host.fileExists = (file) => file in sources || fileExists(file);
  host.getSourceFile = (file, version, ...rest) =>
    file in sources
      ? ts.createSourceFile(file, sources[file]!, version)
      : getSourceFile.call(host, file, version, ...rest);
  const program = ts.createProgram(Object.keys(sources), options, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    );
}

test('a typed client made of the document compiles, and knows what fits', async () => {
  const { document } = await wholeDocument();
  const client = clientSource(document);
  const use = (statement: string) =>
    `import { Client } from './client.ts';\nexport async function use(client: Client) { ${statement} }`;
  const chat = `const { choices } = await client['chat.completions.create']({}, { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }); return choices[0]?.message.content?.length;`;
  const found = complaints({
    '/client.ts': client,
    '/right.ts': use(chat),
    '/log.ts': use(`return (await client['logs.get']({ id: '1' })).metrics.cost.toFixed(2);`),
    '/role.ts': use(chat.replace("'user'", "'robot'")),
    '/parameter.ts': use(`return client['logs.get']({});`),
  });
  assert.deepEqual(
    [...new Set(found.map((one) => one.split(':')[0]))].sort(),
    ['/parameter.ts', '/role.ts'],
    found.join('\n'),
  );
});
