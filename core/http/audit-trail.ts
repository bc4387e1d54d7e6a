import { isIPv6 } from 'node:net';
import type { Outcome, RequestContext } from '../pipeline/context.ts';
import type { Scope } from '../pipeline/plugin.ts';
import { callerKey, matchedRoute } from '../pipeline/keys.ts';
import type { Counter } from '../ports/metrics.ts';
import type { AuditEntry, Resources } from '../ports/resources.ts';
import { randomUUID } from 'node:crypto';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { HeaderList } from '../ports/header-list.ts';
import { isSecretName } from '../config/ajv.ts';
import { isStorable } from '../organisation/fields.ts';

const maxDepth = 32;
const mask = '***';

/**
 * The same value with everything masked that stands under the name of a secret (`api_key`, `apiKey`, `authorization`),
 * at any depth. Integers beyond 2^53 become their digits; what lies more than 32 levels deep is left out.
 */
export function maskSecrets(value: unknown): unknown {
  return masked(value, 0);
}

function masked(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return '…';
  if (Array.isArray(value)) return value.map((item) => masked(item, depth + 1));
  // A name like __proto__ must become a member like any other.
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) {
    copy[storable(name)] = isSecretName(name) ? mask : masked(member, depth + 1);
  }
  return copy;
}

function storable(text: string): string {
  if (isStorable(text)) return text;
  return Buffer.from(text.replaceAll('\0', '\ufffd'), 'utf8').toString('utf8');
}

const maxDetailsBytes = 16_384;
const maxStrangerPath = 256;
/** Of the texts that stand for query, headers and body when these are too long: together, and as UTF-8, within the bound. */
const shortened = { query: 1000, headers: 1500, body: 1500, message: 300 };

/** What an entry is about. */
interface AuditSubject {
  readonly organisationId: string;
  /** Empty for what belongs to the organisation. */
  readonly workspaceId: string;
  /** Empty when nothing was changed. */
  readonly resourceId: string;
  /** The status that the client sees. */
  readonly status: number;
  /** Why it was refused. */
  readonly error?: GatewayError | undefined;
}

/** What was done: `api_keys.create` is about `api_keys`. */
type AuditedAction = Pick<RouteDefinition, 'id' | 'audit'>;

/**
 * An action for the audit trail. `key` is undefined for callers that are not known. People who come with a token or
 * with a key of their own are named by their user id, everybody else by the key.
 */
export function auditEntry(
  context: RequestContext,
  route: AuditedAction,
  key: KeyRecord | undefined,
  subject: AuditSubject,
): AuditEntry {
  const userId = key?.kind === 'workspace-user' ? key.userId : '';
  return {
    id: randomUUID(),
    organisationId: subject.organisationId,
    workspaceId: subject.workspaceId,
    at: context.startedAt,
    actorType: userId === '' ? 'api_key' : 'user',
    actorId: userId === '' ? (key?.id ?? '') : userId,
    actorName: key?.name ?? '',
    action: route.audit ?? 'read',
    resourceType: resourceTypeOf(route),
    resourceId: subject.resourceId,
    method: context.method,
    uri: context.originalPath.slice(0, key === undefined ? maxStrangerPath : 2048),
    requestId: context.id,
    status: subject.status,
    clientIp: context.remoteAddress,
    details:
      key === undefined
        ? strangerDetails(subject.error)
        : detailsOf(context, subject.error, userId === '' ? undefined : key.id),
  };
}

/** How often something was tried again. */
interface Repeats {
  readonly repeats: number;
  /** Of the last one, milliseconds since the epoch. */
  readonly lastAt: number;
  /** Not all of them were like the first. */
  readonly isMixed: boolean;
}

/** The entry about attempts that were like `first`; what they sent is not kept. */
function repeatedEntry(first: AuditEntry, { repeats, lastAt, isMixed }: Repeats): AuditEntry {
  const since = new Date(first.at).toISOString();
  const like = isMixed ? 'other attempts, more than are kept one by one,' : 'attempts like this one';
  const error = { code: 'repeated', message: `${repeats} ${like} were refused since ${since}.` };
  return { ...first, id: randomUUID(), at: lastAt, details: JSON.stringify({ error, repeats }) };
}

/** Nothing that somebody unknown sends is kept but the beginning of the path: it may be anything, and much of it. */
function strangerDetails(refusal: GatewayError | undefined): string {
  const error = refusal && {
    code: refusal.code,
    message: refusal.message.slice(0, shortened.message),
  };
  return JSON.stringify({ error });
}

/** `api_keys` of `api_keys.create`. */
function resourceTypeOf({ id }: AuditedAction): string {
  return id.slice(0, id.indexOf('.'));
}

/** What was asked for, and of a person with which of their keys. What goes to a provider is not administration: its body is left out. */
function detailsOf(
  context: RequestContext,
  refusal: GatewayError | undefined,
  keyId: string | undefined,
): string {
  const error = refusal === undefined ? undefined : { code: refusal.code, message: refusal.message };
  const query = maskSecrets(Object.fromEntries(new URLSearchParams(context.query)));
  const headers = maskSecrets(headersOf(context.headers));
  const isRecorded = context.body.loaded && context.get(matchedRoute) !== undefined;
  const body = isRecorded ? maskSecrets(context.json) : undefined;
  const details = JSON.stringify({ query, headers, body, error, api_key_id: keyId });
  if (Buffer.byteLength(details) <= maxDetailsBytes) return details;
  return JSON.stringify({
    query: JSON.stringify(query).slice(0, shortened.query),
    headers: JSON.stringify(headers).slice(0, shortened.headers),
    body: JSON.stringify(body)?.slice(0, shortened.body),
    error: error && { code: error.code, message: error.message.slice(0, shortened.message) },
    api_key_id: keyId?.slice(0, 255),
    truncated: true,
  });
}

/** A header may hold a whole config, credentials included; it has no part in administration. */
function headersOf(list: HeaderList): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < list.length; at += 2) {
    const value = list[at + 1] as string;
    headers[(list[at] as string).toLowerCase()] = value.trimStart().startsWith('{') ? '***' : value;
  }
  return headers;
}

const batchMs = 1000;
/** Attempts that are alike within this time become two entries at the most: the first, and how often it was repeated. */
const groupMs = 3_600_000;
/** Groups of one organisation at a time; what is beyond them shares one. */
const maxGroups = 200;
/** Waiting for the store, of all organisations. */
const maxWaiting = 1000;

/** Attempts that are alike: of one caller, at one action, refused for one reason; those of strangers at any action. */
interface Group {
  readonly first: AuditEntry;
  readonly since: number;
  repeats: number;
  lastAt: number;
}

/**
 * Puts attempts that were refused into the audit trail, in batches. The first of a group is written at once; its repeats
 * are counted, and one entry says after an hour, or when the instance ends, how many there were. So a caller costs a few
 * entries an hour however often it tries, and callers that change their addresses 402 an hour and organisation at the
 * most. One for each plugin instance.
 */
export class RefusedAttempts {
  private readonly scope: Scope;
  private readonly resources: Resources;
  private readonly dropped: Counter;
  private waiting: AuditEntry[] = [];
  private readonly groups = new Map<string, Map<string, Group>>();
  private flushing: Promise<void> | undefined;

  constructor(scope: Scope, resources: Resources) {
    this.scope = scope;
    this.resources = resources;
    this.dropped = scope.metrics.counter({
      name: 'weir_audit_denied_dropped_total',
      help: 'Entries about refused attempts that are not in the audit trail: the store was away for too long.',
      labels: [],
    })({});
    scope.setInterval(() => this.tick(), batchMs);
    scope.onDispose(() => {
      this.closeGroups(Number.POSITIVE_INFINITY);
      // Entries that came while a batch was on its way go with the second one.
      return this.flush().then(() => this.flush());
    });
  }

  /** Notes a request that was refused when it tried this. */
  note(context: RequestContext, action: AuditedAction, { status, error }: Outcome): void {
    // Auth tells whose key it is even when it refuses it; strangers are everybody's and nobody's.
    const organisationId = context.facts.organisationId || this.scope.directory.defaultOrganisationId;
    const { workspaceId, apiKeyId } = context.facts;
    const key = context.get(callerKey);
    const caller = key?.id ?? apiKeyId;
    const name =
      caller === ''
        ? `${networkOf(context.remoteAddress)} ${status} ${error?.code ?? ''}`
        : `${caller} ${action.id} ${status} ${error?.code ?? ''}`;
    const now = this.scope.clock.now();
    const group = this.groupOf(organisationId, name);
    if (group.found !== undefined) {
      group.found.repeats += 1;
      group.found.lastAt = now;
      return;
    }
    const subject = { organisationId, workspaceId, resourceId: '', status, error };
    const entry = auditEntry(context, action, key, subject);
    const first = entry.actorId === '' ? { ...entry, actorId: apiKeyId } : entry;
    group.of.set(group.name, { first, since: now, repeats: 0, lastAt: now });
    this.wait(first);
  }

  private groupOf(organisationId: string, name: string) {
    let of = this.groups.get(organisationId);
    if (of === undefined) this.groups.set(organisationId, (of = new Map<string, Group>()));
    const own = of.get(name);
    if (own !== undefined || of.size < maxGroups) return { of, name, found: own };
    return { of, name: '', found: of.get('') };
  }

  /** Ends the groups that began so long ago; those that were repeated leave an entry that says so. */
  private closeGroups(now: number): void {
    for (const [organisationId, of] of this.groups) {
      for (const [name, group] of of) {
        if (now - group.since < groupMs) continue;
        of.delete(name);
        if (group.repeats > 0) this.wait(repeatedEntry(group.first, { ...group, isMixed: name === '' }));
      }
      if (of.size === 0) this.groups.delete(organisationId);
    }
  }

  private wait(entry: AuditEntry): void {
    if (this.waiting.length >= maxWaiting) this.dropped.inc();
    else this.waiting.push(entry);
  }

  private tick(): Promise<void> {
    this.closeGroups(this.scope.clock.now());
    return this.flush();
  }

  /** Stores what waits; while the store is away it goes on waiting, within its bound. */
  private flush(): Promise<void> {
    this.flushing ??= this.store().finally(() => (this.flushing = undefined));
    return this.flushing;
  }

  private async store(): Promise<void> {
    const batch = this.waiting;
    this.waiting = [];
    for (const organisationId of new Set(batch.map((entry) => entry.organisationId))) {
      const entries = batch.filter((entry) => entry.organisationId === organisationId);
      try {
        await this.resources.write(organisationId, async ({ audit }) => {
          for (const entry of entries) await audit.appendRefused(entry);
        });
      } catch (error) {
        this.keep(entries, error);
      }
    }
  }

  private keep(entries: readonly AuditEntry[], error: unknown): void {
    const room = Math.max(0, maxWaiting - this.waiting.length);
    this.waiting.unshift(...entries.slice(0, room));
    if (entries.length > room) this.dropped.inc(entries.length - room);
    this.scope.log.warn('Refused attempts could not be put into the audit trail yet', {
      waiting: this.waiting.length,
      error: error instanceof Error ? error.message : String(error),
    });
  }
}

/** One client has a whole network of 64 bits in IPv6. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail = ''] = address.split('::');
  const left = head.split(':').filter((part) => part !== '');
  const right = tail.split(':').filter((part) => part !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - left.length - right.length) : 0;
  return [...left, ...Array.from({ length: zeros }, () => '0'), ...right].slice(0, 4).join(':');
}
