import { randomUUID } from 'node:crypto';
import type { Features } from '../../access/features.ts';
import { rotationBehind } from '../../organisation/key-rotation.ts';
import type { Clock } from '../../ports/clock.ts';
import type { JobRun, Jobs } from '../../ports/jobs.ts';
import type { ApiKeyRecord, AuditEntry, Resources, ResourcesWriter } from '../../ports/resources.ts';
import { GatewayError, messageOf } from '../../errors/gateway-error.ts';

const everyMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
/** Thousands of organisations take a while; an overlapping run does no harm. */
const timeoutMs = 600_000;
/** Changes that the store makes at a time. */
const fullPage = 1000;
/** Keys due for rotation that the store lists at a time. */
const fullPageOfRotations = 200;
/** Ids of one audit entry: keeps its details below 16 KiB. */
const idsOfEntry = 300;

/** Dependencies of the jobs. */
interface ExpiryJobsPlace {
  readonly resources: Resources;
  readonly clock: Clock;
  /** `audit_logs` decides whether the changes are audited. */
  readonly features: Pick<Features, 'isOn'>;
}

/**
 * Defines `keys.expire`, `invites.expire` and `keys.rotate`, each once a minute. Marks expired keys and invites, and
 * drops secrets whose transition period after a rotation has ended; none of them was accepted before that, the marks
 * are for readers. A key due for rotation gets an expiry for its secret: the new secret is made when somebody who may
 * rotate the key asks for it, so that no unseen secret is stored. Each change is audited in the same transaction, as an
 * action of the system; without due records nothing is written.
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

/** Whether the present secret of a key has no expiry yet: the secret of the previous rotation was asked for. */
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
 * Defines `attempts.remove`, once an hour: removes refused administration attempts older than `days`. 0 keeps them for
 * ever.
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
  /** Page size. */
  readonly mostChanged: number;
  /** Marks one page of due records and returns their audit entries. */
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

/** A failing organisation does not hold up the others; the job is retried for it. */
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
    throw new Error(`${failures.length} organisations could not be served: ${messageOf(failures[0])}`, {
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
    // No caller asked for it, so there is no request.
    method: '',
    uri: '',
    requestId,
    status: 200,
    clientIp: '',
    details: JSON.stringify(details),
  };
}

/**
 * Organisations for repeated jobs. Empty during an outage of the store: others report it once per outage, and the job
 * repeats.
 */
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
