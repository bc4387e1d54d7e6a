import {
  allowedValues,
  requiredKeys,
  schemaMap,
  schemaObject,
  type SchemaObject,
  schemaTypes,
  unionBranches,
} from '../../config/describe-schema.ts';
import type { OpenApiDocument } from './document-writer.ts';
import type { DocumentObject } from './operation.ts';
import { isJsonObject } from '../../base/json.ts';

/** The style of the reference. */
export const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --quiet: #767676; --accent: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --accent: #7ab8ff; --quiet: #9a9a9a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0; } h2 { margin: 2.5rem 0 .5rem; } h3 { margin: 1rem 0 .25rem; font-size: 1rem; }
a { color: var(--accent); } p { margin: .5rem 0; }
code, pre { font: .875rem/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; margin: .25rem 0; padding: .5rem; background: var(--soft); border-radius: .25rem; }
nav ul { columns: 16rem; padding-left: 1rem; } h1, h2, h3, p, nav li { overflow-wrap: anywhere; } .quiet { color: var(--quiet); }
details { border-top: 1px solid var(--line); } summary { padding: .5rem 0; cursor: pointer; overflow-wrap: anywhere; }
.inside { padding: 0 0 1rem 1rem; overflow-x: auto; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
.get { color: #1a7f37; } .post { color: #0b62c4; } .put, .patch { color: #9a6700; } .delete { color: #cf222e; }
@media (prefers-color-scheme: dark) {
  .get { color: #56d364; } .post { color: #7ab8ff; } .put, .patch { color: #e3b341; } .delete { color: #ff8b82; }
}
dl { margin: .25rem 0; } dt { margin-top: .5rem; overflow-wrap: anywhere; } dd { margin: 0 0 0 1rem; }
.deprecated > code { text-decoration: line-through; }
.mark { padding: 0 .35rem; border: 1px solid var(--line); border-radius: .25rem; font-size: .75rem; }
`;

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** A sentence as HTML; text between backticks becomes code. */
function sentenceHtml(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

/** A value as indented JSON. */
function codeHtml(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return `<pre><code>${escapeHtml(text)}</code></pre>`;
}

/** The anchor of a named part of the reference. */
export function anchorOf(kind: 'operation' | 'schema' | 'response', name: string): string {
  return `${kind}-${name.replaceAll(/[^\w.-]/g, '-')}`;
}

/** Depth limit: deeper members of a schema are not written out. */
const deepest = 8;

/** Short description of a value's type; named schemas are links. */
function typeHtml(schema: SchemaObject, depth = 0): string {
  const { $ref: reference } = schema;
  if (typeof reference === 'string') {
    const name = reference.slice(reference.lastIndexOf('/') + 1);
    return `<a href="#${anchorOf('schema', name)}">${escapeHtml(name)}</a>`;
  }
  const branches = unionBranches(schema);
  if (branches.length > 0 && depth < deepest) {
    return branches.map((branch) => typeHtml(branch, depth + 1)).join(' or ');
  }
  const allowed = allowedValues(schema);
  if (allowed !== undefined) {
    return allowed.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(' or ');
  }
  const types = schemaTypes(schema);
  if (types.includes('array') && depth < deepest) {
    return `list of ${typeHtml(schemaObject(schema['items']), depth + 1)}`;
  }
  const format = typeof schema['format'] === 'string' ? ` (${escapeHtml(schema['format'])})` : '';
  return types.length === 0 ? 'anything' : `${types.join(' or ')}${format}`;
}

/** Members of an object, of a list of objects, or of the branches of a union; empty for any other schema. */
function membersHtml(schema: SchemaObject, depth = 0): string {
  if (depth > deepest) return '';
  const branches = unionBranches(schema);
  const items = schema['items'];
  const within = [...branches, ...(isJsonObject(items) ? [items] : [])];
  const nested = within.map((each) => membersHtml(each, depth + 1)).join('');
  const properties = schemaMap(schema, 'properties');
  if (properties.size === 0) return nested;
  const required = new Set(requiredKeys(schema));
  const rows = [...properties].map(([name, member]) => memberHtml(name, member, required.has(name), depth));
  return `<dl>${rows.join('')}</dl>${nested}`;
}

function memberHtml(name: string, member: SchemaObject, required: boolean, depth: number): string {
  const { deprecated, description } = member;
  return `<dt${deprecated === true ? ' class="deprecated"' : ''}><code>${escapeHtml(name)}</code> <span class="quiet">${typeHtml(member)}</span>${required ? ` ${markHtml('required')}` : ''}${deprecated === true ? ` ${markHtml('deprecated')}` : ''}</dt><dd>${typeof description === 'string' ? sentenceHtml(description) : ''}${membersHtml(member, depth + 1)}</dd>`;
}

/** A word in a frame. */
function markHtml(word: string): string {
  return `<span class="mark">${escapeHtml(word)}</span>`;
}

interface PlacedOperation {
  readonly method: string;
  readonly path: string;
  readonly operation: DocumentObject;
}

/** The document as one self-contained page: no script, no font, no image. */
export function renderReference(document: OpenApiDocument): string {
  const { info, tags } = document;
  const title = text(info['title']);
  const placed = operationsOf(document);
  const groups = tags.map(({ name }) => ({
    name,
    operations: placed.filter(({ operation }) => listed(operation['tags']).includes(name)),
  }));
  const bases = document.servers.map(({ url }) => `<code>${escapeHtml(text(url))}</code>`).join(' and ');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title><style>${style}</style></head><body>
<header><h1>${escapeHtml(title)}</h1><p>${sentenceHtml(text(info['description']))}</p>
<p class="quiet">Version ${escapeHtml(text(info['version']))}, served under ${bases}. For programs: <a href="/openapi.json">openapi.json</a>.</p></header>
<nav>${groups.map(({ name, operations }) => `<h3>${escapeHtml(name)}</h3><ul>${operations.map(linkHtml).join('')}</ul>`).join('')}
<h3>For all</h3><ul><li><a href="#headers">Headers</a></li><li><a href="#schemas">Schemas</a></li><li><a href="#errors">Errors</a></li></ul></nav>
<main>${groups.map(({ name, operations }) => `<section><h2>${escapeHtml(name)}</h2>${operations.map(operationHtml).join('')}</section>`).join('')}
${headersHtml(document)}${schemasHtml(document)}${errorsHtml(document)}</main></body></html>
`;
}

function operationsOf({ paths }: OpenApiDocument): readonly PlacedOperation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, operation]) => 'operationId' in operation)
      .map(([method, operation]) => ({ method, path, operation })),
  );
}

function linkHtml({ method, path, operation }: PlacedOperation): string {
  const anchor = anchorOf('operation', text(operation['operationId']));
  return `<li><a href="#${anchor}">${method.toUpperCase()} ${escapeHtml(path)}</a></li>`;
}

function operationHtml({ method, path, operation }: PlacedOperation): string {
  const { summary, description, requestBody, responses } = operation;
  const id = text(operation['operationId']);
  return `<details><summary><span class="method ${method}">${method.toUpperCase()}</span> <code>${escapeHtml(path)}</code> <span class="quiet">${sentenceHtml(text(summary))}</span></summary>
<div class="inside" id="${anchorOf('operation', id)}"><p class="quiet">${escapeHtml(id)}</p>
${typeof description === 'string' ? `<p>${sentenceHtml(description)}</p>` : ''}${parametersHtml(listed(operation['parameters']))}${isJsonObject(requestBody) ? `<h3>Body</h3>${contentHtml(requestBody['content'])}` : ''}${responsesHtml(schemaObject(responses))}</div></details>`;
}

/** The headers that control the gateway are the same for all operations, so the page describes them once. */
function parametersHtml(parameters: readonly unknown[]): string {
  const own = parameters.map(schemaObject).filter((one) => !('$ref' in one));
  const steered = own.length < parameters.length;
  if (parameters.length === 0) return '';
  const also = steered ? '<p>And the <a href="#headers">headers</a> that steer the gateway.</p>' : '';
  const list = own.length === 0 ? '' : `<dl>${own.map(parameterHtml).join('')}</dl>`;
  return `<h3>Parameters</h3>${list}${also}`;
}

function parameterHtml(parameter: SchemaObject): string {
  const marks = [
    text(parameter['in']),
    ...(parameter['required'] === true ? ['required'] : []),
    ...(parameter['deprecated'] === true ? ['deprecated'] : []),
  ];
  const { description } = parameter;
  return `<dt${parameter['deprecated'] === true ? ' class="deprecated"' : ''}><code>${escapeHtml(text(parameter['name']))}</code> <span class="quiet">${typeHtml(schemaObject(parameter['schema']))}</span> ${marks.map(markHtml).join(' ')}</dt><dd>${typeof description === 'string' ? sentenceHtml(description) : ''}</dd>`;
}

function contentHtml(content: unknown): string {
  return Object.entries(schemaObject(content))
    .map(([type, media]) => {
      const { schema, example } = schemaObject(media);
      const shape = schemaObject(schema);
      return `<p><code>${escapeHtml(type)}</code> <span class="quiet">${typeHtml(shape)}</span></p>${membersHtml(shape)}${example === undefined ? '' : codeHtml(example)}`;
    })
    .join('');
}

function responsesHtml(responses: SchemaObject): string {
  const entries = Object.entries(responses).map(
    ([status, response]) => [status, schemaObject(response)] as const,
  );
  const own = entries.filter(([, response]) => !('$ref' in response));
  const errors = entries.flatMap(([status, { $ref: reference }]) => {
    if (typeof reference !== 'string') return [];
    const name = reference.slice(reference.lastIndexOf('/') + 1);
    return [`<a href="#${anchorOf('response', name)}">${escapeHtml(status)}</a>`];
  });
  const answers = own.map(
    ([status, { description, content }]) =>
      `<h3>${escapeHtml(status)}</h3><p>${sentenceHtml(text(description))}</p>${contentHtml(content)}`,
  );
  return answers.join('') + (errors.length === 0 ? '' : `<h3>Errors</h3><p>${errors.join(', ')}</p>`);
}

function headersHtml({ components }: OpenApiDocument): string {
  const asked = Object.values(components['parameters'] ?? {}).map(parameterHtml);
  const answered = Object.entries(components['headers'] ?? {}).map(
    ([name, { description, schema }]) =>
      `<dt><code>${escapeHtml(name)}</code> <span class="quiet">${typeHtml(schemaObject(schema))}</span></dt><dd>${sentenceHtml(text(description))}</dd>`,
  );
  return `<section id="headers"><h2>Headers</h2><h3>Of requests</h3><dl>${asked.join('')}</dl><h3>Of answers</h3><dl>${answered.join('')}</dl></section>`;
}

function schemasHtml({ components }: OpenApiDocument): string {
  const schemas = Object.entries(components['schemas'] ?? {}).map(
    ([name, schema]) =>
      `<details><summary><code>${escapeHtml(name)}</code></summary><div class="inside" id="${anchorOf('schema', name)}"><p class="quiet">${typeHtml(schema)}</p>${typeof schema['description'] === 'string' ? `<p>${sentenceHtml(schema['description'])}</p>` : ''}${membersHtml(schema)}</div></details>`,
  );
  return `<section id="schemas"><h2>Schemas</h2>${schemas.join('')}</section>`;
}

function errorsHtml({ components }: OpenApiDocument): string {
  const responses = Object.entries(components['responses'] ?? {}).map(
    ([name, { description, content }]) =>
      `<details><summary><code>${escapeHtml(name)}</code></summary><div class="inside" id="${anchorOf('response', name)}"><p>${sentenceHtml(text(description))}</p>${contentHtml(content)}</div></details>`,
  );
  return `<section id="errors"><h2>Errors</h2>${responses.join('')}</section>`;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function listed(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}
