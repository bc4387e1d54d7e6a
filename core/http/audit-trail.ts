import { isIPv6 } from 'node:net';
import type { Outcome, RequestContext } from '../pipeline/context.ts';
import type { Scope } from '../pipeline/plugin.ts';
import { callerKey, matchedRoute } from '../pipeline/keys.ts';
import type { Counter } from '../ports/metrics.ts';
import type { AuditEntry, Resources } from '../ports/resources.ts';
import { randomUUID } from 'node:crypto';
import { type GatewayError, messageOf } from '../errors/gateway-error.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { HeaderList } from '../ports/header-list.ts';
import { isSecretName } from '../config/ajv.ts';
import { isStorable } from '../base/bytes.ts';

const maxDepth = 32;
const mask = '***';

/**
 * A copy of the value in which members with the name of a secret (`api_key`, `apiKey`, `authorization`) are masked, at
 * any depth. Integers beyond 2^53 become text; values more than 32 levels deep are left out.
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
/** Lengths of the shortened texts for entries that are too long. Their sum, in UTF-8, stays within `maxDetailsBytes`. */
const shortened = { query: 1000, headers: 1500, body: 1500, message: 300 };

/** Subject of an audit entry. */
interface AuditSubject {
  readonly organisationId: string;
  /** Empty for actions on the organisation. */
  readonly workspaceId: string;
  /** Empty when nothing was changed. */
  readonly resourceId: string;
  /** The status that the client sees. */
  readonly status: number;
  /** Reason of the refusal. */
  readonly error?: GatewayError | undefined;
}

/** The route of the action; `api_keys.create` has the resource type `api_keys`. */
type AuditedAction = Pick<RouteDefinition, 'id' | 'audit'>;

/**
 * An entry for the audit trail. `key` is undefined for unknown callers. The actor of a token or of a user's own key is
 * the user, of any other key the key itself.
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

/** Repetitions of a refused attempt. */
interface Repeats {
  readonly repeats: number;
  /** Time of the last one, milliseconds since the epoch. */
  readonly lastAt: number;
  /** Some of them differ from the first. */
  readonly isMixed: boolean;
}

/** The entry for the repetitions of `first`, without their bodies and headers. */
function repeatedEntry(first: AuditEntry, { repeats, lastAt, isMixed }: Repeats): AuditEntry {
  const since = new Date(first.at).toISOString();
  const like = isMixed ? 'other attempts, more than are kept one by one,' : 'attempts like this one';
  const error = { code: 'repeated', message: `${repeats} ${like} were refused since ${since}.` };
  return { ...first, id: randomUUID(), at: lastAt, details: JSON.stringify({ error, repeats }) };
}

/** Details for an unknown caller. Of its request, entries keep only the beginning of the path: the rest is unbounded. */
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

/** Query, headers, body and error of a request, and the id of a user's key. Bodies for providers are left out. */
function detailsOf(
  context: RequestContext,
  refusal: GatewayError | undefined,
  keyId: string | undefined,
): string {
  const error = refusal === undefined ? undefined : { code: refusal.code, message: refusal.message };
  const query = maskSecrets(Object.fromEntries(new URLSearchParams(context.query)));
  const headers = maskSecrets(headersOf(context.headers));
  const route = context.get(matchedRoute);
  const isRecorded = context.body.loaded && route !== undefined && route.isBodySecret !== true;
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

/** Masks JSON headers: they may hold a whole config with credentials, and administration does not use them. */
function headersOf(list: HeaderList): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < list.length; at += 2) {
    const value = list[at + 1] as string;
    headers[(list[at] as string).toLowerCase()] = value.trimStart().startsWith('{') ? '***' : value;
  }
  return headers;
}

const batchMs = 1000;
/** Equal attempts within this time become at most two entries: the first, and the number of its repetitions. */
const groupMs = 3_600_000;
/** Upper bound of groups of one organisation at a time; further attempts share one group. */
const maxGroups = 200;
/** Upper bound of entries that wait for the store, over all organisations. */
const maxWaiting = 1000;

/** Attempts of one caller at one action, refused for one reason; of an unknown caller at any action. */
interface Group {
  readonly first: AuditEntry;
  readonly since: number;
  repeats: number;
  lastAt: number;
}

/**
 * Writes refused attempts to the audit trail, in batches. The first of a group is written at once; repetitions are
 * counted, and one entry after an hour, or at the end of the instance, holds their number. So a caller costs a few
 * entries an hour however often it tries, and callers that change their addresses at most 402 an hour and organisation.
 * One for each plugin instance.
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
      help: 'Entries about refused attempts missing from the audit trail because the store was unavailable for too long.',
      labels: [],
    })({});
    scope.setInterval(() => this.tick(), batchMs);
    scope.onDispose(() => {
      this.closeGroups(Number.POSITIVE_INFINITY);
      // The second flush writes entries that arrived during the first.
      return this.flush().then(() => this.flush());
    });
  }

  /** Notes a refused attempt at this action. */
  note(context: RequestContext, action: AuditedAction, { status, error }: Outcome): void {
    // Auth names the owner of a key even when it refuses it; unknown callers go to the default organisation.
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

  /** Closes groups older than `groupMs`; each with repetitions leaves an entry with their number. */
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

  /** Stores waiting entries; while the store is unreachable they keep waiting, up to `maxWaiting`. */
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
      error: messageOf(error),
    });
  }
}

/** In IPv6 a client owns a whole /64 network, so its address alone does not identify it. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail = ''] = address.split('::');
  const left = head.split(':').filter((part) => part !== '');
  const right = tail.split(':').filter((part) => part !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - left.length - right.length) : 0;
  return [...left, ...Array.from({ length: zeros }, () => '0'), ...right].slice(0, 4).join(':');
}
