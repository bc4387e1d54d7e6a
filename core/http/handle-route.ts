import { holds } from '../access/access.ts';
import { compileSchema } from '../config/ajv.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import type { Resources } from '../ports/resources.ts';
import type { RouteDefinition } from './define-route.ts';
import { jsonAnswer } from './reply.ts';
import { RouteCall } from './route-call.ts';
import { describeIssues, readRouteParts } from './route-parts.ts';

/**
 * Handles one administration route: scope → validate → handle, what it changes audited → validate the reply → JSON.
 * `resources` is undefined when `storage.resources` is off.
 */
export async function handleRoute(
  exchange: Exchange,
  log: Log,
  resources: Resources | undefined,
): Promise<Answer> {
  const { route } = exchange.matched;
  if (!route) throw new TypeError('This request matched no administration route.');
  const key = authorised(exchange, route);
  const parts = await readRouteParts(exchange, route);
  const call = new RouteCall(parts, key, exchange, { route, resources });
  const reply = await route.handle(call);
  await call.auditAction();
  const issues = compileSchema(route.reply)(reply);
  if (issues.length > 0) {
    log.error('A route answered outside of its schema', { route: route.id, issue: describeIssues(issues) });
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
  const scopes = typeof route.scope === 'string' ? [route.scope] : route.scope;
  if (!scopes.some((scope) => holds(key, scope))) {
    const wanted = scopes.map((scope) => `"${scope}"`).join(' or ');
    throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope ${wanted}.`);
  }
  return key;
}
