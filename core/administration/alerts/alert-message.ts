import { escapeHtml } from '../../http/openapi/render-reference.ts';
import { limitWords } from '../../access/limit-charges.ts';
import type { RateLimit, UsageCrossing } from '../../ports/budgets.ts';
import type { ResourcesReader } from '../../ports/resources.ts';
import type { Mail } from './mail.ts';

/** Reason why a person receives the mail. */
type RecipientReason = 'named' | 'holder' | 'manager' | 'administrator';

/** Context of a mail, apart from the event itself. */
export interface MailOccasion {
  /** Names; `workspace` is undefined for records of the organisation. */
  readonly organisation: string;
  readonly workspace: string | undefined;
  readonly reason: RecipientReason;
}

/** Events of webhooks. */
type AlertEvent = 'usage.threshold_reached' | 'usage.limit_exhausted' | 'rate_limit.reached';

/** Event of a crossing. */
export function eventOf({ kind, subject }: Pick<UsageCrossing, 'kind' | 'subject'>): AlertEvent {
  if (subject.type === 'rate_limit_policy') return 'rate_limit.reached';
  return kind === 'threshold' ? 'usage.threshold_reached' : 'usage.limit_exhausted';
}

/** JSON body of the webhook post for a crossing. */
export function webhookBody(crossing: UsageCrossing): string {
  const { subject, resetsAt, per } = crossing;
  const amounts =
    per === undefined
      ? {
          credit_limit: crossing.limit,
          alert_threshold: crossing.threshold ?? null,
          current_usage: crossing.used,
          next_usage_reset_at: resetsAt === undefined ? null : new Date(resetsAt).toISOString(),
        }
      : { value: crossing.limit, per };
  return JSON.stringify({
    type: eventOf(crossing),
    timestamp: new Date(crossing.at).toISOString(),
    data: {
      organisation_id: crossing.organisationId,
      workspace_id: crossing.workspaceId ?? null,
      subject: {
        type: subject.type,
        id: subject.id,
        name: subject.name,
        value_key: subject.valueKey ?? null,
      },
      unit: crossing.unit,
      ...amounts,
    },
  });
}

const owners: Readonly<Record<UsageCrossing['subject']['type'], string>> = {
  api_key: 'key',
  workspace: 'workspace',
  provider: 'provider',
  integration: 'integration',
  usage_limit_policy: 'usage-limit policy',
  rate_limit_policy: 'rate-limit policy',
};

const reasons: Readonly<Record<RecipientReason, string>> = {
  named: 'the key names your address in its alert_emails',
  holder: 'the key is yours',
  manager: 'you manage the workspace',
  administrator: 'you are an owner or an admin of the organisation',
};

const longestName = 100;

/** The mail about a crossing, to one person. */
export function composeMail(
  crossing: UsageCrossing,
  occasion: MailOccasion,
): Pick<Mail, 'subject' | 'text' | 'html'> {
  if (crossing.per !== undefined) return composeRateMail({ ...crossing, per: crossing.per }, occasion);
  const { unit, limit, threshold, used, subject, resetsAt } = crossing;
  const isExhausted = crossing.kind === 'exhausted';
  const owner = ownerOf(subject);
  const share = limit > 0 ? ` (${Math.floor((used / limit) * 100)}%)` : '';
  const anew = resetsAt === undefined ? undefined : minute(resetsAt);
  const paragraphs = [
    `The ${owner} has used ${amount(used, unit)} of its usage limit of ${amount(limit, unit)}${share}.`,
    isExhausted
      ? consequence(crossing)
      : `Its alert threshold is ${amount(threshold ?? limit, unit)}. ${consequence(crossing)}`,
    `What you can do: ${remedy(crossing)}`,
  ];
  const facts: readonly Fact[] = [
    ...factsOf(subject),
    ['Used', amount(used, unit)],
    ['Limit', amount(limit, unit)],
    ['Seen at', minute(crossing.at)],
    ['Begins anew', anew ?? 'never by itself'],
  ];
  const title = isExhausted
    ? `Usage limit exhausted: ${owner}`
    : `Usage alert: ${owner} has used ${amount(used, unit)} of ${amount(limit, unit)}`;
  return mailOf({ subject: title, paragraphs, facts }, occasion);
}

/** The mail about a rate limit, which frees up by itself many times a day. */
function composeRateMail(
  crossing: UsageCrossing & { readonly per: RateLimit['unit'] },
  occasion: MailOccasion,
): Pick<Mail, 'subject' | 'text' | 'html'> {
  const { unit, limit: value, per, subject } = crossing;
  const owner = ownerOf(subject);
  const limit = limitWords({ type: unit === 'tokens' ? 'tokens' : 'requests', unit: per, value });
  return mailOf(
    {
      subject: `Rate limit reached: ${owner}`,
      paragraphs: [
        `The ${owner} has refused a request: its limit of ${limit} is reached.`,
        'Requests beyond it are refused with status 429 (rate_limited) until there is room again. This is told once a day (UTC), however often it happens.',
        `What you can do: ${remedy(crossing)}`,
      ],
      facts: [...factsOf(subject), ['Limit', limit], ['Seen at', minute(crossing.at)]],
    },
    occasion,
  );
}

type Subject = UsageCrossing['subject'];

/** Owner of the limit: `usage-limit policy "Free" for metadata._user:ann`. */
function ownerOf({ type, name, valueKey }: Subject): string {
  const group = valueKey === undefined ? '' : ` for ${line(valueKey)}`;
  return `${owners[type]} "${line(name)}"${group}`;
}

function factsOf({ type, id, name, valueKey }: Subject): readonly Fact[] {
  return [
    [capitalize(owners[type]), `${line(name)} (${id})`],
    ...(valueKey === undefined ? [] : [['Group', line(valueKey)] as const]),
  ];
}

type Fact = readonly [name: string, value: string];

/** Content of a mail without its place and the reason of its recipient. */
interface MailContent {
  readonly subject: string;
  readonly paragraphs: readonly string[];
  readonly facts: readonly Fact[];
}

/** A mail as text and as HTML. */
export function mailOf(
  { subject, paragraphs, facts: more }: MailContent,
  { organisation, workspace, reason }: MailOccasion,
): Pick<Mail, 'subject' | 'text' | 'html'> {
  const facts: readonly Fact[] = [
    ['Organisation', line(organisation)],
    ...(workspace === undefined ? [] : [['Workspace', line(workspace)] as const]),
    ...more,
  ];
  const ending = `You get this mail from the Weir gateway because ${reasons[reason]}.`;
  return {
    subject,
    text: `${[...paragraphs, facts.map(([name, value]) => `${name}: ${value}`).join('\n'), ending].join('\n\n')}\n`,
    html: htmlOf(paragraphs, facts, ending),
  };
}

function htmlOf(paragraphs: readonly string[], facts: readonly Fact[], ending: string): string {
  const rows = facts.map(
    ([name, value]) =>
      `<tr><td style="padding:2px 16px 2px 0;color:#666">${escapeHtml(name)}</td><td>${escapeHtml(value)}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"></head><body style="font-family:sans-serif;max-width:40em">
${paragraphs.map((one) => `<p>${escapeHtml(one)}</p>`).join('\n')}
<table style="border-collapse:collapse">
${rows.join('\n')}
</table>
<p style="color:#666">${escapeHtml(ending)}</p>
</body></html>
`;
}

/** Effect on requests. A threshold may be reached together with the limit. */
function consequence({ subject: { type }, used, limit, resetsAt }: UsageCrossing): string {
  const refused =
    type === 'provider' || type === 'integration'
      ? 'requests to it are refused with status 412 (provider_budget_exhausted), or go to the next target of their config'
      : 'requests are refused with status 412 (budget_exhausted)';
  const anew = resetsAt === undefined ? '' : `counting begins anew at ${minute(resetsAt)} or `;
  const until = `${refused} until ${anew}the limit is raised.`;
  return used < limit
    ? `Requests go on until the limit is reached; then ${until}`
    : `The limit is exhausted: ${until}`;
}

/** Sentence on how to raise the limit or reset its count. */
function remedy({ subject: { type, id }, workspaceId }: UsageCrossing): string {
  const place = workspaceId === undefined ? '' : `?workspace_id=${workspaceId}`;
  const put = (path: string, limit = 'usage_limits', reset = 'reset_usage'): string =>
    `(PUT ${path} with "${limit}", or where the configuration file sets it) or begin its count anew (the same with "${reset}").`;
  switch (type) {
    case 'api_key':
      return `raise the limit of the key ${put(`/api-keys/${id}`)}`;
    case 'workspace':
      return `raise the limit of the workspace ${put(`/admin/workspaces/${id}`)}`;
    case 'provider':
      return `raise the limit of the provider ${put(`/providers/${id}${place}`)}`;
    case 'integration':
      return `raise what the workspace may use of the integration ${put(`/integrations/${id}/workspaces`)}`;
    case 'usage_limit_policy':
      return `raise the limit of the policy ${put(`/policies/usage-limits/${id}`, 'credit_limit', 'reset_usage_for_value')}`;
    case 'rate_limit_policy':
      return `raise the limit of the policy (PUT /policies/rate-limits/${id}${place} with "value", or where the configuration file sets it), or let callers send less.`;
  }
}

const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 4,
});

const whole = new Intl.NumberFormat('en-US');

function amount(value: number, unit: UsageCrossing['unit']): string {
  if (unit === 'cost') return dollars.format(value);
  return `${whole.format(value)} ${value === 1 ? unit.slice(0, -1) : unit}`;
}

/** `2026-12-01 00:00 UTC`. */
export function minute(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** A name on one line, shortened. */
export function line(text: string): string {
  const one = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return one.length > longestName ? `${one.slice(0, longestName)}…` : one;
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Upper bound of recipients of one event. */
const maxRecipients = 100;

const firstPage = { offset: 0, limit: maxRecipients };

/** A recipient of mail. */
export interface Recipient {
  readonly address: string;
  readonly reason: RecipientReason;
}

/** Collects recipients, each address once, in the order of addition. */
export class Recipients {
  readonly #reader: Pick<ResourcesReader, 'members' | 'users'>;
  readonly #organisationId: string;
  readonly #found = new Map<string, Recipient>();

  constructor(reader: Pick<ResourcesReader, 'members' | 'users'>, organisationId: string) {
    this.#reader = reader;
    this.#organisationId = organisationId;
  }

  /** The first hundred. */
  get told(): readonly Recipient[] {
    return [...this.#found.values()].slice(0, maxRecipients);
  }

  /** Number of recipients beyond that bound. */
  get leftOut(): number {
    return Math.max(0, this.#found.size - maxRecipients);
  }

  /** Adds an address, unless it is the placeholder of a first user without one. */
  add(address: string, reason: RecipientReason): void {
    const key = address.toLowerCase();
    if (key.endsWith('@localhost')) return;
    if (!this.#found.has(key)) this.#found.set(key, { address, reason });
  }

  /** Adds a user of the organisation, if present. */
  async addUser(id: string, reason: RecipientReason): Promise<void> {
    const user = await this.#reader.users.find(this.#organisationId, id);
    if (user !== undefined) this.add(user.email, reason);
  }

  /** Adds the managers of a workspace. */
  async addManagers(workspaceId: string): Promise<void> {
    const filter = { role: 'manager' } as const;
    const { data } = await this.#reader.members.list(this.#organisationId, workspaceId, filter, firstPage);
    for (const { user } of data) this.add(user.email, 'manager');
  }

  /** Adds the owners and admins of the organisation. */
  async addAdministrators(): Promise<void> {
    for (const role of ['owner', 'admin'] as const) {
      const { data } = await this.#reader.users.list(this.#organisationId, { role }, firstPage);
      for (const { email } of data) this.add(email, 'administrator');
    }
  }
}
