import { holds } from '../access/scopes.ts';
import { featureVariables, type Feature, type Features } from '../access/features.ts';
import { compileSchema } from '../config/ajv.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import { writeInTurns } from '../base/turns.ts';
import type { Resources } from '../ports/resources.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import { jsonTextAnswer } from '../pipeline/reply.ts';
import { RouteCall, storeReader } from './route-call.ts';
import { describeIssues, readRouteParts } from './route-parts.ts';

/** What administration routes work on. */
export interface Administration {
  /** Undefined when `storage.resources` is `none:`. */
  readonly resources: Resources | undefined;
  /** What the configuration owns, where there is no store; for reading alone. */
  readonly owned?: Pick<Resources, 'read'> | undefined;
  readonly directory: Directory;
  readonly features: Features;
}

/** Handles one administration route: switched on → scope → validate → handle, what it changes audited → validate the reply → JSON. */
export async function handleRoute(
  exchange: Exchange,
  log: Log,
  administration: Administration,
): Promise<Answer> {
  const { route } = exchange.matched;
  if (!route) throw new TypeError('This request matched no administration route.');
  requireFeatures(route, administration.features);
  const caller = route.identify === undefined ? authorised(route, exchange.get(callerKey)) : undefined;
  const parts = await readRouteParts(exchange, route);
  const read = storeReader(administration);
  const key =
    caller ??
    authorised(route, await route.identify?.(route.body === undefined ? parts.query : parts.body, read));
  const call = new RouteCall(parts, key, exchange, { route, ...administration });
  const reply = await route.handle(call);
  await call.auditAction();
  // Not known before it has been sent, so there is nothing to check.
  if (route.media !== undefined) return reply as Answer;
  const issues = compileSchema(route.reply)(reply);
  if (issues.length > 0) {
    log.error('A route answered outside of its schema', { route: route.id, issue: describeIssues(issues) });
    throw new GatewayError(
      'reply_invalid',
      'The gateway prepared an answer that breaks its own contract and held it back.',
    );
  }
  return jsonTextAnswer(200, await writeInTurns(reply));
}

/** Routes of what is switched off refuse, and all of them without the administration API. */
function requireFeatures({ feature }: RouteDefinition, features: Features): void {
  if (!features.isOn('api_access')) throw switchedOff('api_access', 'The administration API');
  if (feature !== undefined && !features.isOn(feature)) throw switchedOff(feature, 'This route');
}

function switchedOff(feature: Feature, what: string): GatewayError {
  const variable = featureVariables[feature];
  return new GatewayError(
    'feature_disabled',
    `${what} is switched off: ${variable} is OFF. Set it to ON and restart the gateway.`,
  );
}

function authorised(route: RouteDefinition, key: KeyRecord | undefined): KeyRecord {
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
