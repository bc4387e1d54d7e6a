import { hasScope, type Role, roleOf } from '../access/scopes.ts';
import { type Feature, type Features, featureVariables } from '../access/features.ts';
import { compileSchema } from '../config/ajv.ts';
import { boundedPlace, GatewayError, withFullStop } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import { writeInTurns } from '../base/turns.ts';
import type { Resources, ResourcesReader, ResourcesWriter } from '../ports/resources.ts';
import type { AuditedChange, RouteDefinition, RouteInput } from '../pipeline/define-route.ts';
import { jsonTextAnswer } from '../pipeline/settle.ts';
import { mostAnswers, Unanswered } from '../organisation/guardrails.ts';
import { isStorable } from '../base/bytes.ts';
import type { Issue } from '../config/issue.ts';
import { childPointer } from '../base/json.ts';
import { auditEntry } from './audit-trail.ts';
import { noStore } from '../organisation/without-store.ts';

/** Validated input of a request. */
interface RouteParts {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** Context of a call of a route, beside its input. */
interface RoutePlace {
  readonly route: RouteDefinition;
  readonly resources: Resources | undefined;
  /** Read-only resources of the configuration, where there is no store. */
  readonly owned?: Pick<Resources, 'read'> | undefined;
  readonly directory: Directory;
  readonly features: Features;
}

/** One call of an administration route, as its handler sees it. */
class RouteCall implements RouteInput<unknown, unknown, unknown> {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly key: KeyRecord;
  readonly context: Exchange;
  private readonly route: RouteDefinition;
  private readonly resources: Resources | undefined;
  private readonly place: RoutePlace;
  private readonly directory: Directory;
  /** False while the operator has switched the audit trail off. */
  private readonly audits: boolean;
  private audited = false;

  constructor(parts: RouteParts, key: KeyRecord, exchange: Exchange, place: RoutePlace) {
    this.params = parts.params;
    this.query = parts.query;
    this.body = parts.body;
    this.key = key;
    this.context = exchange;
    this.route = place.route;
    this.resources = place.resources;
    this.place = place;
    this.directory = place.directory;
    this.audits = place.features.isOn('audit_logs');
  }

  get role(): Role {
    return roleOf(this.key, this.directory);
  }

  // Handlers take these out of their input one by one.
  readonly read = async <T>(work: (reader: ResourcesReader) => Promise<T>): Promise<T> =>
    storeReader(this.place)(work);

  readonly write = async <T>(work: (writer: ResourcesWriter) => Promise<AuditedChange<T>>): Promise<T> => {
    if (this.route.audit === null)
      throw new TypeError(`The route "${this.route.id}" changes something and names no audit action.`);
    const result = await storeOf(this.resources).write(this.key.organisationId, async (writer) => {
      const change = await work(writer);
      if (this.audits) await writer.audit.append(this.entry(change.id, change.workspaceId ?? ''));
      return change.result;
    });
    this.audited = true;
    return result;
  };

  readonly requireVersion = (version: number): void => {
    const wanted = this.context.header('if-match');
    if (wanted === undefined || wanted.trim() === '*') return;
    // A proxy that compresses turns the gateway's tag into a weak one.
    const tags = wanted.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
    if (tags.includes(`"${version}"`)) return;
    throw new GatewayError(
      'version_mismatch',
      `The record has version ${version} now, and If-Match asks for ${wanted.slice(0, 64)}. Read it again, then repeat your change with its ETag.`,
    );
  };

  readonly sendVersion = (version: number): void => {
    this.context.replaceResponseHeader('etag', `"${version}"`);
  };

  /** Audits an action that changed no record. Changes are audited in their own transaction. */
  async auditAction(): Promise<void> {
    const { route, resources, key } = this;
    if (route.audit === null || this.audited || !this.audits || resources === undefined) return;
    const entry = this.entry('', key.workspaceId);
    await resources.write(key.organisationId, (writer) => writer.audit.append(entry));
  }

  private entry(resourceId: string, workspaceId: string) {
    const { organisationId } = this.key;
    return auditEntry(this.context, this.route, this.key, {
      organisationId,
      workspaceId,
      resourceId,
      status: 200,
    });
  }
}

/** Reads resources of the store, or else those of the configuration. Rejects with `not_supported` without both. */
function storeReader({
  resources,
  owned,
}: Pick<RoutePlace, 'resources' | 'owned'>): RouteInput<unknown, unknown, unknown>['read'] {
  return async (work) => (resources ?? owned ?? storeOf(resources)).read(work);
}

function storeOf(resources: Resources | undefined): Resources {
  if (resources !== undefined) return resources;
  throw noStore();
}

const maxBodyBytes = 1_048_576;
/** Upper bound of issues in one answer; more of them cost more than they help. */
const maxListed = 50;

type Part = 'path' | 'query' | 'body';

/** Reads and validates the input of an administration route; reports all issues of a part at once. */
async function readRouteParts(exchange: Exchange, route: RouteDefinition): Promise<RouteParts> {
  return {
    params: validated(route.params, decodeParams(exchange.matched.params ?? {}), 'path'),
    query: validated(route.query, readQuery(exchange.query), 'query'),
    body: await readBody(exchange, route),
  };
}

/** The first issues, as a sentence. */
function describeIssues(issues: readonly Pick<Issue, 'path' | 'message'>[]): string {
  const named = issues.slice(0, 20).map((issue) => `${boundedPlace(issue.path) || '/'} ${issue.message}`);
  const rest = issues.length - named.length;
  return `${named.join('; ')}${rest === 0 ? '' : `; and ${rest} more`}`;
}

/** A missing body becomes an empty object, so that the schema names the missing members. */
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
  // Coercion and defaults write into the value: path and query are the gateway's own objects; a body stays unchanged.
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

/** Texts that no store accepts: with NUL, or with half a surrogate pair. */
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

/** Repeated parameters become a comma-separated one: existing clients send either form. */
function readQuery(query: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const plain = name.endsWith('[]') ? name.slice(0, -2) : name;
    values[plain] = Object.hasOwn(values, plain) ? `${values[plain]},${value}` : value;
  }
  return values;
}

/** Dependencies of administration routes. */
export interface Administration {
  /** Undefined when `storage.resources` is `none:`. */
  readonly resources: Resources | undefined;
  /** Read-only resources of the configuration, where there is no store. */
  readonly owned?: Pick<Resources, 'read'> | undefined;
  readonly directory: Directory;
  readonly features: Features;
}

/** Handles one administration route: feature check → scope → validate → handle and audit → validate the reply → JSON. */
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
  const reply = await handled(route, call);
  await call.auditAction();
  // Media replies are streamed, so there is nothing to validate.
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

/** A handler that needs an answer from another thread first has changed nothing yet, and begins again. */
async function handled(route: RouteDefinition, call: RouteCall): Promise<unknown> {
  for (let left = mostAnswers; ; left -= 1)
    try {
      return await route.handle(call);
    } catch (error) {
      if (!(error instanceof Unanswered) || left === 0) throw error;
      await error.answer;
    }
}

/** Throws for routes of a feature that is switched off, and for all routes without the administration API. */
function requireFeatures({ feature }: RouteDefinition, features: Features): void {
  if (!features.isOn('api_access')) throw featureDisabledError('api_access', 'The administration API');
  if (feature !== undefined && !features.isOn(feature)) throw featureDisabledError(feature, 'This route');
}

function featureDisabledError(feature: Feature, what: string): GatewayError {
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
  if (scopes.length > 0 && !scopes.some((scope) => hasScope(key, scope))) {
    const wanted = scopes.map((scope) => `"${scope}"`).join(' or ');
    throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope ${wanted}.`);
  }
  return key;
}
