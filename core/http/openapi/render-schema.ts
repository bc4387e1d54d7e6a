import {
  allowedValues,
  isObject,
  requiredKeys,
  schemaMap,
  schemaObject,
  schemaTypes,
  unionBranches,
  type SchemaObject,
} from '../../config/schema-object.ts';

/** Text that stands in HTML as itself. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** A sentence in which what stands between backticks is code. */
export function sentenceHtml(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

/** A value as indented JSON. */
export function codeHtml(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return `<pre><code>${escapeHtml(text)}</code></pre>`;
}

/** The anchor of a named part of the reference. */
export function anchorOf(kind: 'operation' | 'schema' | 'response', name: string): string {
  return `${kind}-${name.replaceAll(/[^\w.-]/g, '-')}`;
}

/** Where a schema of a client's making ends: deeper ones are not written out. */
const deepest = 8;

/** What a value may be, in a few words; named schemas are links. */
export function typeHtml(schema: SchemaObject, depth = 0): string {
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

/** The members of an object, of a list of objects, or of the forms of a union; empty for anything else. */
export function membersHtml(schema: SchemaObject, depth = 0): string {
  if (depth > deepest) return '';
  const branches = unionBranches(schema);
  const items = schema['items'];
  const within = [...branches, ...(isObject(items) ? [items] : [])];
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
export function markHtml(word: string): string {
  return `<span class="mark">${escapeHtml(word)}</span>`;
}
