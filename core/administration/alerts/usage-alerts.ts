import { createHmac, randomUUID } from 'node:crypto';
import { sha256 } from '../../base/bytes.ts';
import type { AlertSettings } from '../../config/alerts-schema.ts';
import { GatewayError, messageOf } from '../../errors/gateway-error.ts';
import type { UsageAlerts, UsageCrossing, UsageLedger } from '../../ports/budgets.ts';
import type { Clock } from '../../ports/clock.ts';
import type { GuardedFetch } from '../../ports/transport.ts';
import type { JobRun, Jobs } from '../../ports/jobs.ts';
import type { Log } from '../../ports/log.ts';
import type { Resources, ResourcesReader } from '../../ports/resources.ts';
import {
  composeMail,
  eventOf,
  type MailOccasion,
  webhookBody,
  type Recipient,
  Recipients,
} from './alert-message.ts';
import { type AlertChannels, alertJobs } from './alert-channels.ts';
import { retryAfterMs } from '../../base/retry-after.ts';

const maxUnstored = 10_000;
const tryAgainMs = 5000;

/** Dependencies of alerts. */
export interface UsageAlertsPlace {
  readonly jobs: Pick<Jobs, 'define' | 'add' | 'counts'>;
  readonly resources: Pick<Resources, 'read'>;
  readonly ledger: Pick<UsageLedger, 'claim'>;
  /** Block `alerts` of the configuration in force. */
  readonly settings: () => AlertSettings;
  /** Respects `security` of that configuration. */
  readonly fetch: () => GuardedFetch;
  readonly channels: AlertChannels;
  readonly clock: Clock;
  readonly log: Log;
}

/** Alerts stored as jobs. */
export interface StoredUsageAlerts extends UsageAlerts {
  /** Retries the alerts that are not stored yet; call it before the jobs close. Never rejects. */
  close(): Promise<void>;
}

/** A crossing, and the process that may claim it. */
interface RaiseData {
  readonly crossing: UsageCrossing;
  readonly by: string;
}
interface MailData {
  readonly crossing: UsageCrossing;
  readonly to: string;
  readonly occasion: MailOccasion;
}
interface WebhookData {
  readonly crossing: UsageCrossing;
  /** SHA-256 of its address. */
  readonly webhook: string;
}

/**
 * Defines the jobs `alerts.raise` (one for each crossing), `alerts.mail` (one for each recipient) and `alerts.webhook`
 * (one for each webhook), and enqueues crossings. The process that claims a crossing in the ledger adds the other jobs,
 * and adds them again after an interruption; their ids prevent duplicates. Settings are read when a job runs: a job
 * stores no secret, and a corrected configuration applies to waiting jobs.
 */
export function createUsageAlerts(place: UsageAlertsPlace): StoredUsageAlerts {
  return new JobAlerts(place);
}

class JobAlerts implements StoredUsageAlerts {
  readonly #place: UsageAlertsPlace;
  /** By id. */
  readonly #unstored = new Map<string, UsageCrossing>();
  #storing: Promise<void> | undefined;
  #cancel: () => void = () => undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(place: UsageAlertsPlace) {
    this.#place = place;
    const { jobs } = place;
    jobs.define<RaiseData>({
      name: 'alerts.raise',
      ...alertJobs.patience,
      handle: ({ data }) => this.#raise(data),
    });
    jobs.define<MailData>({
      name: 'alerts.mail',
      ...alertJobs.patience,
      timeoutMs: alertJobs.mailTimeoutMs,
      handle: (run) => this.#mail(run),
    });
    jobs.define<WebhookData>({
      name: 'alerts.webhook',
      ...alertJobs.patience,
      handle: (run) => this.#post(run),
    });
  }

  crossed(crossing: UsageCrossing): void {
    const { log, settings } = this.#place;
    const { smtp, webhooks } = settings();
    log.info(describeCrossing(crossing), fieldsOf(crossing));
    if (smtp === undefined && webhooks.length === 0) return;
    if (this.#unstored.size >= maxUnstored) this.#giveUp(crossing, `${maxUnstored} others wait already`);
    else this.#unstored.set(crossing.id, crossing);
    void this.#store();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#storing;
    await this.#store();
    if (this.#unstored.size > 0)
      this.#place.log.error(
        'Usage alerts could not be stored; each is told after the restart, with the next request that its limit is about',
        { alerts: this.#unstored.size },
      );
  }

  #store(): Promise<void> {
    this.#storing ??= this.#storeAll().finally(() => (this.#storing = undefined));
    return this.#storing;
  }

  async #storeAll(): Promise<void> {
    this.#cancel();
    const { jobs, clock, log } = this.#place;
    for (const [id, crossing] of this.#unstored) {
      try {
        const data: RaiseData = { crossing, by: randomUUID() };
        await jobs.add('alerts.raise', `alerts.raise:${sha256(id, 'hex')}`, data);
        this.#unstored.delete(id);
      } catch (error) {
        if (GatewayError.is(error)) {
          if (!this.#isFailing)
            log.warn('Usage alerts cannot be stored now; they wait in memory and are tried again', { error });
          this.#isFailing = true;
          if (!this.#isClosed) this.#cancel = clock.after(tryAgainMs, () => void this.#store());
          return;
        }
        this.#unstored.delete(id);
        this.#giveUp(crossing, messageOf(error));
      }
    }
    if (this.#isFailing) log.info('Usage alerts are stored again');
    this.#isFailing = false;
  }

  #giveUp(crossing: UsageCrossing, reason: string): void {
    this.#place.log.error('A usage alert is not sent', { ...fieldsOf(crossing), reason });
  }

  async #raise({ crossing, by }: RaiseData): Promise<void> {
    const { jobs, ledger, resources, log, settings } = this.#place;
    const { smtp, webhooks } = settings();
    if (smtp === undefined && webhooks.length === 0) return;
    const { waiting } = await jobs.counts();
    if (waiting >= alertJobs.maxWaiting)
      throw new Error(`${waiting} jobs wait already; alerts leave room for others`);
    const { key, organisationId, kind, mark } = crossing;
    if (!(await ledger.claim({ key, organisationId, kind, mark, by }))) return;
    const { recipients, leftOut, ...names } = await resources.read((reader) =>
      findRecipients(reader, crossing),
    );
    const { workspace } = names;
    const { subject } = crossing;
    // The request path knows only the ids of workspaces.
    const told =
      subject.type === 'workspace' && workspace !== undefined
        ? { ...crossing, subject: { ...subject, name: workspace } }
        : crossing;
    const event = eventOf(crossing);
    for (const { url, events = [event] } of webhooks) {
      if (!events.includes(event)) continue;
      const data: WebhookData = { crossing: told, webhook: sha256(url, 'hex') };
      await jobs.add('alerts.webhook', `alerts.webhook:${sha256(`${crossing.id}\n${url}`, 'hex')}`, data);
    }
    if (smtp === undefined) return;
    for (const { address, reason } of recipients) {
      const data: MailData = { crossing: told, to: address, occasion: { ...names, reason } };
      const id = sha256(`${crossing.id}\n${address.toLowerCase()}`, 'hex');
      await jobs.add('alerts.mail', `alerts.mail:${id}`, data);
    }
    if (recipients.length === 0)
      log.warn(
        'A usage alert has nobody to go to by mail: no key names an address, and there are no managers and admins',
        fieldsOf(crossing),
      );
    if (leftOut > 0)
      log.warn('A usage alert goes to 100 people; the others are not told', {
        ...fieldsOf(crossing),
        left_out: leftOut,
      });
  }

  #mail({ id, data: { crossing, to, occasion } }: JobRun<MailData>): Promise<void> {
    const mail = { to, id, ...composeMail(crossing, occasion) };
    return this.#place.channels.mail(mail, 'A usage alert', fieldsOf(crossing));
  }

  async #post({ data: { crossing, webhook }, signal }: JobRun<WebhookData>): Promise<void> {
    const { fetch, settings, channels, clock, log } = this.#place;
    const found = settings().webhooks.find(({ url }) => sha256(url, 'hex') === webhook);
    if (found === undefined) {
      log.info('A usage alert is not posted: its webhook is no longer configured', fieldsOf(crossing));
      return;
    }
    const { url, secret } = found;
    channels.failures.check(url);
    const started = clock.monotonic();
    const id = `msg_${sha256(crossing.id, 'base64url')}`;
    const post = { url, secret, id, body: webhookBody(crossing) };
    const result = await postWebhook(post, { fetch: fetch(), now: clock.now(), signal });
    if (result.outcome === 'taken') {
      channels.count({ channel: 'webhook', outcome: 'sent' }).inc();
      return;
    }
    if (result.outcome === 'failed') {
      channels.failures.note(url, started, result.retryAfterMs);
      throw new Error(`The event was not taken: ${result.reason}`);
    }
    channels.count({ channel: 'webhook', outcome: 'refused' }).inc();
    log.warn('A usage alert was refused by a webhook and is given up', {
      ...fieldsOf(crossing),
      reason: result.reason,
    });
  }
}

function describeCrossing({ kind, per }: UsageCrossing): string {
  if (per !== undefined) return 'A rate limit of a policy is reached';
  return kind === 'exhausted' ? 'A usage limit is exhausted' : 'Usage has reached an alert threshold';
}

/** Contains ids and amounts, no names. */
function fieldsOf({ kind, organisationId, subject, unit, limit, used }: UsageCrossing) {
  const { type, id } = subject;
  return { alert: kind, organisation: organisationId, subject: type, subject_id: id, unit, limit, used };
}

/** Recipients of a crossing, and the names of its organisation and workspace. */
interface ToldOf extends Pick<MailOccasion, 'organisation' | 'workspace'> {
  readonly recipients: readonly Recipient[];
  /** Number of recipients beyond the bound. */
  readonly leftOut: number;
}

/**
 * Recipients that the key names, the managers of the workspace, and the owners and admins of the organisation, in that
 * order, each address once. A record of the organisation has no managers.
 */
async function findRecipients(reader: ResourcesReader, crossing: UsageCrossing): Promise<ToldOf> {
  const { organisationId } = crossing;
  const organisation = await reader.organisations.byId(organisationId);
  const workspaceId = await workspaceOf(reader, crossing);
  const workspace =
    workspaceId === undefined ? undefined : await reader.workspaces.find(organisationId, workspaceId);
  const found = new Recipients(reader, organisationId);
  for (const address of crossing.emails ?? []) found.add(address, 'named');
  if (workspace !== undefined) await found.addManagers(workspace.id);
  await found.addAdministrators();
  return {
    recipients: found.told,
    leftOut: found.leftOut,
    organisation: organisation?.name || organisationId,
    workspace: workspace?.name ?? workspaceId,
  };
}

/** Keys of the organisation run in its default workspace, but its managers are not informed of them. */
async function workspaceOf(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  { organisationId, workspaceId, subject }: UsageCrossing,
): Promise<string | undefined> {
  if (subject.type !== 'api_key') return workspaceId;
  const key = await apiKeys.find(organisationId, subject.id);
  return key?.type === 'organisation-service' ? undefined : workspaceId;
}

const timeoutMs = 15_000;
/** Bytes read of an answer. */
const maxBytes = 1_048_576;
/** The receiver refuses this message, or the address has been abandoned: a retry would fail too. */
const finalStatuses = new Set([400, 405, 410, 413, 415, 422]);

/** One event for one receiver. */
interface WebhookPost {
  readonly url: string;
  /** `whsec_` and base64. */
  readonly secret: string;
  /** Same for every attempt at an event. */
  readonly id: string;
  /** JSON. */
  readonly body: string;
}

/** Result of a post: taken, refused for ever, or to be retried, with the reason. */
type WebhookResult =
  | { readonly outcome: 'taken' }
  | {
      readonly outcome: 'refused' | 'failed';
      readonly reason: string;
      /** Back-off that the receiver asks for; undefined for none. */
      readonly retryAfterMs?: number;
    };

/**
 * Posts an event, signed as in Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Follows no
 * redirect. Never rejects; a reason names only the host.
 */
export async function postWebhook(
  { url, secret, id, body }: WebhookPost,
  {
    fetch,
    now,
    signal,
  }: { readonly fetch: GuardedFetch; readonly now: number; readonly signal: AbortSignal },
): Promise<WebhookResult> {
  const timestamp = String(Math.floor(now / 1000));
  let status: number | undefined;
  let retryAfter: number | undefined;
  const fetching = fetch.fetch({
    url,
    method: 'POST',
    headers: [
      ...['content-type', 'application/json', 'user-agent', 'weir'],
      ...['webhook-id', id, 'webhook-timestamp', timestamp],
      ...['webhook-signature', signatureOf({ secret, id, timestamp, body })],
    ],
    body: Buffer.from(body),
    timeoutMs,
    maxBytes,
    maxRedirects: 0,
    accept(answered, headers) {
      status = answered;
      retryAfter = retryAfterMs(headers, now);
    },
  });
  signal.addEventListener('abort', fetching.abort, { once: true });
  try {
    await fetching.answer;
  } catch (error) {
    // Its head says how the answer is meant; the rest may be too long or never end.
    if (status === undefined)
      return { outcome: 'failed', reason: GatewayError.is(error) ? error.message : 'it could not be called' };
  } finally {
    signal.removeEventListener('abort', fetching.abort);
  }
  if (status !== undefined && status >= 200 && status < 300) return { outcome: 'taken' };
  const reason = `"${new URL(url).host}" answered ${status}`;
  if (finalStatuses.has(status ?? 0)) return { outcome: 'refused', reason };
  return { outcome: 'failed', reason, ...(retryAfter !== undefined && { retryAfterMs: retryAfter }) };
}

/** HMAC-SHA256 over id, time and body, as `webhook-signature` carries it. */
function signatureOf({
  secret,
  id,
  timestamp,
  body,
}: Pick<WebhookPost, 'secret' | 'id' | 'body'> & { readonly timestamp: string }): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}
