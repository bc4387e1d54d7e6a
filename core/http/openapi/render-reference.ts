import { isObject, schemaObject, type SchemaObject } from '../../config/schema-object.ts';
import type { OpenApiDocument } from './document-writer.ts';
import type { DocumentObject } from './operation.ts';
import { style } from './reference-style.ts';
import {
  anchorOf,
  codeHtml,
  escapeHtml,
  markHtml,
  membersHtml,
  sentenceHtml,
  typeHtml,
} from './render-schema.ts';

interface PlacedOperation {
  readonly method: string;
  readonly path: string;
  readonly operation: DocumentObject;
}

/** The document as one page that needs nothing else: no script, no font, no image. */
export function renderReference(document: OpenApiDocument): string {
  const { info, tags } = document;
  const title = text(info['title']);
  const placed = placedOperations(document);
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

function placedOperations({ paths }: OpenApiDocument): readonly PlacedOperation[] {
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
${typeof description === 'string' ? `<p>${sentenceHtml(description)}</p>` : ''}${parametersHtml(listed(operation['parameters']))}${isObject(requestBody) ? `<h3>Body</h3>${contentHtml(requestBody['content'])}` : ''}${responsesHtml(schemaObject(responses))}</div></details>`;
}

/** The headers that steer are the same everywhere, and told once. */
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
