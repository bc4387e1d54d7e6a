import type { ErrorObject } from 'ajv/dist/2020.js';
import type { RequestIssue } from '../../core/dialects/dialect.ts';
import { asObject } from './json-reading.ts';

/** Enumerated values are shown when they are short; other text of a request never is. */
const maxShownCharacters = 40;

/** Names a value for an error message without repeating a conversation. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return `a string of ${counted(value.length, 'character')}`;
  if (Array.isArray(value)) return `an array of ${counted(value.length, 'item')}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  // A number, a BigInt, a boolean or null.
  return `${value as number}`;
}

/** The issue of a body that is no JSON object; undefined when it is one. */
export function bodyIssue(body: unknown): RequestIssue | undefined {
  if (asObject(body) !== undefined) return undefined;
  return { param: 'body', message: `body must be a JSON object; found ${describeValue(body)}.` };
}

/** An issue from the first error that ajv (run with `verbose`) found in `body`. */
export function issueOf(error: ErrorObject, body: unknown): RequestIssue {
  const path = pathOf(error.instancePath);
  const missing = asObject(error.params)?.missingProperty;
  if (error.keyword === 'required' && typeof missing === 'string') {
    const param = paramOf([...path, missing], body);
    return { param, message: `${param} is required and was not given.` };
  }
  const param = paramOf(path, body);
  return { param, message: `${param} must ${ruleOf(error)}; found ${foundBy(error)}.` };
}

/** A path as OpenAI writes it: `tools[3].function.name`. The body itself is `body`. */
function paramOf(path: readonly string[], body: unknown): string {
  if (path.length === 0) return 'body';
  let name = '';
  let parent = body;
  for (const segment of path) {
    const inArray = Array.isArray(parent);
    name += inArray ? `[${segment}]` : name === '' ? segment : `.${segment}`;
    parent = inArray ? (parent as unknown[])[Number(segment)] : asObject(parent)?.[segment];
  }
  return name;
}

function pathOf(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function ruleOf({ keyword, schema, params }: ErrorObject): string {
  switch (keyword) {
    case 'type':
      return `be ${listOf(schema, typeName)}`;
    case 'enum':
      return `be ${listOf(schema, (value) => `'${value}'`)}`;
    case 'const':
      return `be '${String(schema)}'`;
    case 'not':
      return 'not be null';
    case 'minItems':
    case 'maxItems':
      return `hold ${keyword === 'minItems' ? 'at least' : 'at most'} ${counted(Number(schema), 'item')}`;
    default:
      return asObject(params)?.rule === undefined ? `satisfy "${keyword}"` : String(asObject(params)?.rule);
  }
}

function foundBy({ keyword, data }: ErrorObject): string {
  const shown = (keyword === 'enum' || keyword === 'const') && typeof data === 'string';
  return shown && data.length <= maxShownCharacters ? JSON.stringify(data) : describeValue(data);
}

function counted(amount: number, noun: string): string {
  return `${amount} ${noun}${amount === 1 ? '' : 's'}`;
}

function typeName(type: string): string {
  return type === 'array' || type === 'object' ? `an ${type}` : type === 'null' ? 'null' : `a ${type}`;
}

/** `a`, `a or b`, `a, b or c`. Null is left out where there is more: it stands for "not given". */
function listOf(schema: unknown, show: (value: string) => string): string {
  const values = (Array.isArray(schema) ? schema.map(String) : [String(schema)]).filter(
    (value, _position, all) => value !== 'null' || all.length === 1,
  );
  const shown = values.map(show);
  const last = shown.pop() ?? '';
  return shown.length === 0 ? last : `${shown.join(', ')} or ${last}`;
}
