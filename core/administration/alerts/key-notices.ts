import { sha256 } from '../../base/bytes.ts';
import type { JobRun, Jobs } from '../../ports/jobs.ts';
import type { Log } from '../../ports/log.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  ApiKeyRecord,
  KeyMoments,
  Resources,
  ResourcesReader,
  UntoldKey,
} from '../../ports/resources.ts';
import { organisationsOf } from '../jobs/expiry-jobs.ts';
import { line, mailOf, type MailOccasion, minute, Recipients } from './alert-message.ts';
import { type AlertChannels, alertJobs } from './alert-channels.ts';
import type { Mail } from './mail.ts';

const everyMs = 60_000;
const dayMs = 86_400_000;
const fullPage = 200;

/** Dependencies of the notices. */
export interface KeyNoticesPlace {
  readonly jobs: Pick<Jobs, 'define' | 'repeat' | 'add' | 'counts'>;
  readonly resources: Pick<Resources, 'read' | 'write'>;
  readonly channels: AlertChannels;
  /** Whether a mail server is configured. */
  readonly canMail: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** One notice about a key. */
interface KeyNotice {
  readonly kind: keyof KeyMoments;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly key: Pick<ApiKeyRecord, 'id' | 'name' | 'organisationId'>;
}

interface MailData {
  readonly notice: KeyNotice;
  readonly to: string;
  readonly occasion: MailOccasion;
}

/**
 * Defines `keys.tell`, once a minute, and `keys.mail`, one for each recipient. Notices are due a day before a key is
 * rotated by its policy, at the rotation, a day before a secret expires whose successor was not asked for, and, where the key
 * names addresses for alerts, a day before it expires itself. They are recorded as told after the mails are stored: a process killed in between
 * stores the mails again, under the same ids. No mail holds a secret. Without a mail server nothing is sent or
 * recorded.
 */
export function defineKeyNotices(place: KeyNoticesPlace): void {
  const { jobs, channels } = place;
  jobs.define({ name: 'keys.tell', timeoutMs: 600_000, handle: (run) => sendAllNotices(run, place) });
  jobs.define<MailData>({
    name: 'keys.mail',
    ...alertJobs.patience,
    timeoutMs: alertJobs.mailTimeoutMs,
    handle: ({ id, data: { notice, to, occasion } }) =>
      channels.mail({ to, id, ...composeKeyMail(notice, occasion) }, 'A notice of a key', fieldsOf(notice)),
  });
  jobs.repeat({ name: 'keys.tell', everyMs });
}

async function sendAllNotices({ signal }: JobRun<unknown>, place: KeyNoticesPlace): Promise<void> {
  const { resources, jobs, clock, canMail } = place;
  if (!canMail()) return;
  for (const { id } of await organisationsOf(resources)) {
    for (let found = fullPage; found >= fullPage;) {
      signal.throwIfAborted();
      // A write that fails is retried after a minute.
      if ((await jobs.counts()).waiting >= alertJobs.maxWaiting) return;
      const now = clock.now();
      const untold = await resources.read(({ apiKeys }) => apiKeys.untold(id, now, now + dayMs));
      for (const one of untold) await sendNotices(one, now, place);
      await resources.write(id, async ({ apiKeys }) => {
        for (const one of untold) await apiKeys.noteTold(id, one.key.id, momentsAfterNotice(one, now));
      });
      found = untold.length;
    }
  }
}

/** Notices of a key that are due now. */
function dueMoments({ key, told }: UntoldKey, now: number): KeyMoments {
  const secret = key.secrets[0]?.expiresAt;
  const moments: KeyMoments = {
    ...(key.rotation !== undefined && { rotation: key.rotation.nextAt }),
    ...(secret !== undefined && { rotated: secret, secret }),
    ...(key.expiresAt !== undefined && { end: key.expiresAt }),
  };
  const isDue = ([kind, at]: [string, number]): boolean =>
    at > now && (kind === 'rotated' || at <= now + dayMs) && told[kind as keyof KeyMoments] !== at;
  return Object.fromEntries(Object.entries(moments).filter(isDue));
}

function momentsAfterNotice(one: UntoldKey, now: number): KeyMoments {
  return { ...one.told, ...dueMoments(one, now) };
}

async function sendNotices(one: UntoldKey, now: number, place: KeyNoticesPlace): Promise<void> {
  const { jobs, resources, log } = place;
  const { id, name, organisationId, createdAt, alertEmails } = one.key;
  const { rotated, secret, end, ...others } = dueMoments(one, now);
  const told: KeyMoments = {
    ...others,
    // The mail about the rotation also states the end of the secret.
    ...(rotated === undefined ? { secret } : { rotated }),
    // Its maker knows when it ends: nobody is told who did not ask for it. One made to live for hours needs no notice.
    ...(end !== undefined && alertEmails.length > 0 && end - createdAt > dayMs && { end }),
  };
  const due = Object.entries(told).filter(
    (entry): entry is [keyof KeyMoments, number] => entry[1] !== undefined,
  );
  if (due.length === 0) return;
  const { recipients, ...names } = await resources.read((reader) => recipientsOf(reader, one.key));
  for (const [kind, at] of due) {
    const notice: KeyNotice = { kind, at, key: { id, name, organisationId } };
    if (recipients.told.length === 0)
      log.warn('A notice of a key has nobody to go to by mail', fieldsOf(notice));
    for (const { address, reason } of recipients.told) {
      const data: MailData = { notice, to: address, occasion: { ...names, reason } };
      const mailId = sha256(`${id}\n${kind}\n${at}\n${address.toLowerCase()}`, 'hex');
      await jobs.add('keys.mail', `keys.mail:${mailId}`, data);
    }
  }
}

/** Recipients that the key names, and its user; without any, the managers of its workspace, else the administrators. */
async function recipientsOf(reader: ResourcesReader, key: ApiKeyRecord) {
  const { organisationId, workspaceId, userId, alertEmails } = key;
  const recipients = new Recipients(reader, organisationId);
  for (const address of alertEmails) recipients.add(address, 'named');
  if (userId !== '') await recipients.addUser(userId, 'holder');
  if (recipients.told.length === 0 && workspaceId !== undefined) await recipients.addManagers(workspaceId);
  if (recipients.told.length === 0) await recipients.addAdministrators();
  const organisation = await reader.organisations.byId(organisationId);
  const workspace =
    workspaceId === undefined ? undefined : await reader.workspaces.find(organisationId, workspaceId);
  return {
    recipients,
    organisation: organisation?.name || organisationId,
    workspace: workspace?.name ?? workspaceId,
  };
}

/** Contains ids only, no names. */
function fieldsOf({ kind, at, key: { id, organisationId } }: KeyNotice) {
  return { notice: kind, organisation: organisationId, key: id, at: new Date(at).toISOString() };
}

/** The mail about a key, to one person. */
function composeKeyMail(
  { kind, at, key }: KeyNotice,
  occasion: MailOccasion,
): Pick<Mail, 'subject' | 'text' | 'html'> {
  const name = `key "${line(key.name)}"`;
  const when = minute(at);
  const rotate = `POST /api-keys/${key.id}/rotate answers the new secret, once, to a caller who may rotate the key.`;
  const refused = 'Requests with it are refused with status 401 (key_expired) from then on.';
  const { subject, paragraphs } = {
    rotation: {
      subject: `The ${name} is rotated at ${when}`,
      paragraphs: [
        `The rotation policy of the ${name} makes its next rotation due at ${when}.`,
        `After that the current secret is accepted for a limited time; another mail gives its end. ${rotate}`,
      ],
    },
    rotated: {
      subject: `The ${name} was rotated: its secret ends at ${when}`,
      paragraphs: [
        `The rotation of the ${name} was due. Its present secret is taken until ${when}. ${refused}`,
        `What you can do: request the new secret and replace the current one with it. ${rotate}`,
      ],
    },
    secret: {
      subject: `The secret of the ${name} ends at ${when}`,
      paragraphs: [
        `The ${name} was rotated, but its new secret was not requested yet. The current one expires at ${when}. ${refused}`,
        `What you can do: ${rotate}`,
      ],
    },
    end: {
      subject: `The ${name} ends at ${when}`,
      paragraphs: [
        `The ${name} ends at ${when}. ${refused}`,
        `What you can do: extend its lifetime (PUT /api-keys/${key.id} with "expires_at"), or create another key and use it.`,
      ],
    },
  }[kind];
  const facts = [
    ['Key', `${line(key.name)} (${key.id})`] as const,
    [kind === 'rotation' ? 'Due at' : 'Ends at', when] as const,
  ];
  return mailOf({ subject, paragraphs, facts }, occasion);
}
