import { compileSchema } from '../config/ajv.ts';
import type { Issue } from '../config/issue.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import type { RouteDefinition } from './define-route.ts';
import { jsonAnswer } from './reply.ts';

/** Handles one administration route: scope → validate → handle → validate the reply → JSON. */
export async function handleRoute(exchange: Exchange, log: Log): Promise<Answer> {
  const { route, params = {} } = exchange.matched;
  if (!route) throw new TypeError('This request matched no administration route.');
  const key = authorised(exchange, route);
  const input = {
    params: validated(route.params, decodeParams(params), 'path'),
    query: validated(route.query, readQuery(exchange.query), 'query'),
    body: await readBody(exchange, route),
    key,
    context: exchange,
  };
  const reply = await route.handle(input);
  const issues = compileSchema(route.reply)(reply);
  if (issues.length > 0) {
    log.error('A route answered outside of its schema', { route: route.id, issue: describe(issues) });
    throw new GatewayError(
      'reply_invalid',
      'The gateway prepared an answer that breaks its own contract and held it back.',
    );
  }
  return jsonAnswer(200, reply);
}

function authorised(exchange: Exchange, route: RouteDefinition): KeyRecord {
  const key = exchange.get(callerKey);
  if (!key)
    throw new GatewayError(
      'key_missing',
      'This route needs a service key. Put the auth plugin before management.',
    );
  if (!key.scopes.includes('*') && !key.scopes.includes(route.scope)) {
    throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope "${route.scope}".`);
  }
  return key;
}

async function readBody(exchange: Exchange, route: RouteDefinition): Promise<unknown> {
  if (route.body === undefined) return {};
  await exchange.body.load();
  if (exchange.body.json === undefined)
    throw new GatewayError('invalid_json', 'The request body is no valid JSON.');
  return validated(route.body, exchange.body.json, 'body');
}

function validated(
  schema: RouteDefinition['query'],
  value: unknown,
  part: 'path' | 'query' | 'body',
): unknown {
  if (schema === undefined) return {};
  // Coercion and defaults write into the value: path and query are objects of our own, a body is never touched.
  const issues = compileSchema(schema, { coerce: part !== 'body', all: true })(value);
  if (issues.length === 0) return value;
  throw new GatewayError('invalid_request', `The ${part} is not valid: ${describe(issues)}.`, {
    param: issues[0]?.path ?? null,
  });
}

function describe(issues: readonly Issue[]): string {
  return issues
    .slice(0, 20)
    .map((issue) => `${issue.path || '/'} ${issue.message}`)
    .join('; ');
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
