import { randomUUID } from 'node:crypto';
import type { Features } from '../../access/features.ts';
import { rotationBehind } from '../../organisation/key-rotation.ts';
import type { Clock } from '../../ports/clock.ts';
import type { JobRun, Jobs } from '../../ports/jobs.ts';
import type { ApiKeyRecord, AuditEntry, Resources, ResourcesWriter } from '../../ports/resources.ts';
import { GatewayError } from '../../errors/gateway-error.ts';

const everyMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
/** Thousands of organisations take a while; another run in between does no harm. */
const timeoutMs = 600_000;
/** So many the store changes in one go. */
const fullPage = 1000;
/** So many keys it tells of whose rotation is due. */
const fullPageOfRotations = 200;
/** Ids of one audit entry: its details stay below 16 KiB. */
const idsOfEntry = 300;

/** What the jobs work on. */
interface ExpiryJobsPlace {
  readonly resources: Resources;
  readonly clock: Clock;
  /** `audit_logs` decides whether what they change is audited. */
  readonly features: Pick<Features, 'isOn'>;
}

/**
 * Defines `keys.expire`, `invites.expire` and `keys.rotate`, each once a minute. Keys and invites that have ended are
 * marked as such, and secrets whose time of transition is over after a rotation are dropped; none of them was accepted any
 * more before that, the marks are for those who look. A key whose rotation is due gets an end for its secret: the new one
 * is made when somebody who may rotate the key asks for it, so that no secret is stored that nobody has seen. Each change
 * is audited in the same transaction, as an action of the system; where nothing is due, nothing is written.
 */
export function defineExpiryJobs(jobs: Pick<Jobs, 'define' | 'repeat'>, place: ExpiryJobsPlace): void {
  define(jobs, place, {
    name: 'keys.expire',
    resourceType: 'api_keys',
    action: 'expire',
    mostChanged: fullPage,
    async expire({ apiKeys }, organisationId, now) {
      const ids = await apiKeys.expireDue(organisationId, now);
      return { changed: ids.length, entries: pagesOf(ids) };
    },
  });
  define(jobs, place, {
    name: 'invites.expire',
    resourceType: 'invites',
    action: 'expire',
    mostChanged: fullPage,
    async expire({ invites }, organisationId, now) {
      const changed = await invites.expireDue(organisationId, now);
      return { changed, entries: changed === 0 ? [] : [{ resourceId: '', details: { count: changed } }] };
    },
  });
  define(jobs, place, {
    name: 'keys.rotate',
    resourceType: 'api_keys',
    action: 'rotate',
    mostChanged: fullPageOfRotations,
    async expire({ apiKeys }, organisationId, now) {
      const due = await apiKeys.rotationsDue(organisationId, now);
      const rotated: string[] = [];
      for (const key of due) {
        if (!(await apiKeys.replace(rotatedKey(key, now)))) throw new Error('A key has changed meanwhile.');
        if (isWhole(key)) rotated.push(key.id);
      }
      return { changed: due.length, entries: pagesOf(rotated) };
    },
  });
}

/** Whether the present secret of a key has no end yet: the secret of the rotation before was asked for. */
function isWhole({ secrets: [present] }: ApiKeyRecord): boolean {
  return present !== undefined && present.expiresAt === undefined;
}

function rotatedKey(key: ApiKeyRecord, now: number): ApiKeyRecord {
  const { rotation, secrets, version } = key;
  if (rotation === undefined) return key;
  const ends = now + rotation.transitionMs;
  const [present] = secrets;
  return {
    ...key,
    secrets: isWhole(key) && present !== undefined ? [{ ...present, expiresAt: ends }] : secrets,
    rotation: rotationBehind(rotation, now, ends),
    updatedAt: now,
    version: version + 1,
  };
}

/**
 * Defines `attempts.remove`, once an hour: attempts at administration that were refused longer ago than `days`
 * are removed. 0 keeps them for ever.
 */
export function defineRefusedAttemptsJob(
  jobs: Pick<Jobs, 'define' | 'repeat'>,
  { resources, clock, days }: Pick<ExpiryJobsPlace, 'resources' | 'clock'> & { readonly days: number },
): void {
  if (days === 0) return;
  const name = 'attempts.remove';
  const handle = async ({ signal }: JobRun<unknown>): Promise<void> => {
    const before = clock.now() - days * dayMs;
    for (const { id } of await organisationsOf(resources)) {
      for (let removed = fullPage; removed >= fullPage;) {
        signal.throwIfAborted();
        removed = await resources.write(id, ({ audit }) => audit.removeRefused(id, before));
      }
    }
  };
  jobs.define({ name, timeoutMs, handle });
  jobs.repeat({ name, everyMs: hourMs });
}

interface Expiry {
  readonly name: string;
  readonly resourceType: string;
  /** In the audit trail. */
  readonly action: 'expire' | 'rotate';
  /** Of one go. */
  readonly mostChanged: number;
  /** Marks what is due, a page of it at the most, and says what the audit trail is to hold of it. */
  expire(writer: ResourcesWriter, organisationId: string, now: number): Promise<Expired>;
}

interface Expired {
  readonly changed: number;
  readonly entries: readonly { readonly resourceId: string; readonly details: unknown }[];
}

function define(jobs: Pick<Jobs, 'define' | 'repeat'>, place: ExpiryJobsPlace, expiry: Expiry): void {
  const { name } = expiry;
  jobs.define({ name, timeoutMs, handle: (run) => expireAll(run, place, expiry) });
  jobs.repeat({ name, everyMs });
}

/** One organisation that cannot be served keeps nobody from the others; the job is tried again for it. */
async function expireAll(
  { id, signal }: JobRun<unknown>,
  place: ExpiryJobsPlace,
  expiry: Expiry,
): Promise<void> {
  const { resources, clock, features } = place;
  const failures: unknown[] = [];
  for (const organisation of await organisationsOf(resources)) {
    try {
      for (let changed = expiry.mostChanged; changed >= expiry.mostChanged;) {
        signal.throwIfAborted();
        changed = await resources.write(organisation.id, async (writer) => {
          const now = clock.now();
          const expired = await expiry.expire(writer, organisation.id, now);
          const { name, resourceType, action } = expiry;
          const about = {
            organisationId: organisation.id,
            at: now,
            name,
            resourceType,
            action,
            requestId: id,
          };
          if (features.isOn('audit_logs'))
            for (const entry of expired.entries) await writer.audit.append(auditEntry(about, entry));
          return expired.changed;
        });
      }
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0)
    throw new Error(`${failures.length} organisations could not be served: ${reasonOf(failures[0])}`, {
      cause: failures[0],
    });
}

function pagesOf(ids: readonly string[]): Expired['entries'] {
  const pages = [];
  for (let at = 0; at < ids.length; at += idsOfEntry) {
    const page = ids.slice(at, at + idsOfEntry);
    pages.push({ resourceId: page.length === 1 ? (page[0] ?? '') : '', details: { ids: page } });
  }
  return pages;
}

interface Occasion {
  readonly organisationId: string;
  readonly at: number;
  readonly name: string;
  readonly resourceType: string;
  readonly action: Expiry['action'];
  readonly requestId: string;
}

function auditEntry(
  { organisationId, at, name, resourceType, action, requestId }: Occasion,
  { resourceId, details }: Expired['entries'][number],
): AuditEntry {
  return {
    id: randomUUID(),
    organisationId,
    workspaceId: '',
    at,
    actorType: 'system',
    actorId: name,
    actorName: name,
    action,
    resourceType,
    resourceId,
    // No caller asked for it: there is no request to name.
    method: '',
    uri: '',
    requestId,
    status: 200,
    clientIp: '',
    details: JSON.stringify(details),
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** For repeated jobs. None while the store is away: others tell of that, once for each outage, and the job comes again. */
export async function organisationsOf(
  resources: Pick<Resources, 'read'>,
): Promise<readonly { readonly id: string }[]> {
  try {
    return await resources.read(({ organisations }) => organisations.list());
  } catch (error) {
    if (GatewayError.is(error) && error.code === 'store_unavailable') return [];
    throw error;
  }
}
