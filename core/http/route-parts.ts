import { isStorable } from '../organisation/fields.ts';
import { compileSchema } from '../config/ajv.ts';
import type { Issue } from '../config/issue.ts';
import { childPointer } from '../base/pointer.ts';
import { boundedPlace, GatewayError, withFullStop } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { RouteParts } from './route-call.ts';

const maxBodyBytes = 1_048_576;
/** Mistakes that one answer lists; working out more of them costs more than it helps. */
const maxListed = 50;

type Part = 'path' | 'query' | 'body';

/** Reads and validates what was sent to an administration route; every mistake of a part at once. */
export async function readRouteParts(exchange: Exchange, route: RouteDefinition): Promise<RouteParts> {
  return {
    params: validated(route.params, decodeParams(exchange.matched.params ?? {}), 'path'),
    query: validated(route.query, readQuery(exchange.query), 'query'),
    body: await readBody(exchange, route),
  };
}

/** The first mistakes, for people. */
export function describeIssues(issues: readonly Pick<Issue, 'path' | 'message'>[]): string {
  const named = issues.slice(0, 20).map((issue) => `${boundedPlace(issue.path) || '/'} ${issue.message}`);
  const rest = issues.length - named.length;
  return `${named.join('; ')}${rest === 0 ? '' : `; and ${rest} more`}`;
}

/** A body that is not there is an empty object: the schema says what it lacks. */
async function readBody(exchange: Exchange, route: RouteDefinition): Promise<unknown> {
  if (route.body === undefined) return {};
  const { body } = exchange;
  if (Number(exchange.header('content-length') ?? 0) > maxBodyBytes) throw tooLarge();
  await body.load();
  if (body.bytes.length > maxBodyBytes) throw tooLarge();
  if (body.bytes.length > 0 && body.json === undefined)
    throw new GatewayError('invalid_json', 'The request body is no valid JSON.');
  return validated(route.body, body.json ?? {}, 'body');
}

function tooLarge(): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The request body is larger than ${maxBodyBytes} bytes, the most that administration routes take.`,
  );
}

function validated(schema: RouteDefinition['query'], value: unknown, part: Part): unknown {
  if (schema === undefined) return {};
  // Coercion and defaults write into the value: path and query are objects of our own, a body is never touched.
  const check = compileSchema(schema, { coerce: part !== 'body', all: true, most: maxListed });
  const issues = check(value);
  const found = issues.length > 0 ? issues : unstorableTexts(value);
  if (found.length === 0) return value;
  throw new GatewayError(
    'invalid_request',
    withFullStop(`The ${part} is not valid: ${describeIssues(found)}`),
    {
      param: found[0]?.path ?? null,
      extra: { errors: found.map(({ path, message }) => ({ path, message })) },
    },
  );
}

/** Texts that no store takes: with NUL, or with half a surrogate pair. */
function unstorableTexts(root: unknown): readonly Pick<Issue, 'path' | 'message'>[] {
  const issues: Pick<Issue, 'path' | 'message'>[] = [];
  const open: [path: string, value: unknown][] = [['', root]];
  for (let next = open.pop(); next !== undefined && issues.length < maxListed; next = open.pop()) {
    const [path, value] = next;
    if (typeof value === 'string') {
      if (!isStorable(value))
        issues.push({ path, message: 'expected text without NUL and without half a surrogate pair' });
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        open.push([childPointer(path, name), member]);
        if (!isStorable(name)) open.push([path, name]);
      }
    }
  }
  return issues;
}

function decodeParams(params: Readonly<Record<string, string>>): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(params)) {
    try {
      decoded[name] = decodeURIComponent(value);
    } catch {
      throw new GatewayError('invalid_request', `The path holds a broken percent-encoding in "${name}".`, {
        param: name,
      });
    }
  }
  return decoded;
}

/** A repeated parameter becomes a comma-separated one: existing clients send either. */
function readQuery(query: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const plain = name.endsWith('[]') ? name.slice(0, -2) : name;
    values[plain] = Object.hasOwn(values, plain) ? `${values[plain]},${value}` : value;
  }
  return values;
}
