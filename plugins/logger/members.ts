import { quote } from '../../core/base/json.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import type { Outcome, RequestContext } from '../../core/pipeline/context.ts';
import { headerNameList } from '../../core/base/header-names.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/sha256.ts';

let second = Number.NaN;
let written = '';

/**
 * Milliseconds since the epoch as `YYYY-MM-DD HH:MM:SS.mmm` in UTC. The part down to the second is remembered:
 * requests that come in the same second share it.
 */
export function createdAt(at: number): string {
  const whole = Math.floor(at / 1000);
  if (whole !== second) {
    written = new Date(whole * 1000).toISOString().slice(0, 19).replace('T', ' ');
    second = whole;
  }
  const rest = Math.floor(at - whole * 1000);
  return `${written}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`;
}

const longest = 64;
/** Name and version. Letters, digits and what versions are made of; the rest is somebody's joke. */
const product = /^([A-Za-z0-9][A-Za-z0-9._@+-]*)(?:\/([A-Za-z0-9][A-Za-z0-9._+-]*))?/;
const plain = /^[A-Za-z0-9][A-Za-z0-9._+ -]*$/;

/** What the SDKs that Stainless makes call themselves in front of their version: `OpenAI/Python 1.99.0`. */
const stainless =
  /^(?:Async)?([A-Za-z]+)\/(?:JS|Python|Go|Java|Ruby|Kotlin|C#|PHP)?\s*([0-9][A-Za-z0-9._+-]*)?/;

/**
 * Which library made the request, as `openai-python 1.99.0`: from the headers by which it says so, else the first product
 * of `agent`, the user agent (`curl 8.5.0`). Empty when nothing is known. Versions are many, so it is bounded.
 */
export function sdkOf(context: Pick<RequestContext, 'header' | 'service'>, agent: string): string {
  const language = context.header('x-stainless-lang');
  if (language !== undefined && plain.test(language)) {
    const version = context.header('x-stainless-package-version') ?? '';
    const name = stainless.exec(agent)?.[1]?.toLowerCase() ?? 'stainless';
    return joined(`${name}-${language.toLowerCase()}`, plain.test(version) ? version : '');
  }
  const own = context.service('package-version');
  if (own !== undefined && plain.test(own))
    return joined('portkey', own.replace(/^portkey[-_]?(?:ai)?-?/i, ''));
  const [, name = '', version = ''] = product.exec(agent) ?? [];
  return joined(name, version);
}

function joined(name: string, version: string): string {
  return (version === '' ? name : `${name} ${version}`).slice(0, longest);
}

type Value = string | number | boolean;
type Read = (context: RequestContext, outcome: Outcome) => Value;

/**
 * Members that many rows of one key share, with the most UTF-16 units that are written of them. A request brings what it
 * differs in from the one before it in the rest of its row.
 */
const members: readonly (readonly [name: keyof RequestRow, read: Read, length?: number])[] = [
  ['outcome', (_, { kind }) => kind],
  ['status', (_, { status }) => status],
  ['pricing', (_, { price }) => price.status],
  ['price_version', (_, { price }) => price.version],
  ['organisation_id', ({ facts }) => facts.organisationId],
  ['workspace_id', ({ facts }) => facts.workspaceId],
  ['api_key_id', ({ facts }) => facts.apiKeyId],
  ['user_id', ({ facts }) => facts.userId],
  ['method', ({ method }) => method, 32],
  ['endpoint', ({ endpoint }) => endpoint.id],
  ['stream', ({ facts }) => facts.stream],
  ['is_success', (_, { kind, status }) => kind === 'completed' && isSuccess(status)],
  ['error_code', (_, { error }) => error?.code ?? ''],
  ['error_source', errorSource],
  ['plugin', (_, { error }) => error?.plugin ?? ''],
  ['ai_service', ({ facts }) => facts.aiService],
  ['provider', ({ facts }) => facts.provider, 255],
  ['model_requested', ({ facts }) => facts.modelRequested, 512],
  ['model', ({ facts }) => facts.modelAnswered || facts.modelRequested, 512],
  ['upstream_host', ({ facts }) => facts.upstreamHost],
  ['config', ({ facts }) => facts.config, 255],
  ['config_version', ({ facts }) => facts.configVersion],
  ['prompt', ({ facts }) => facts.prompt, 255],
  ['prompt_version', ({ facts }) => facts.promptVersion],
  ['virtual_key', ({ facts }) => facts.virtualKey, 255],
  ['cache_status', ({ facts }) => facts.cacheStatus],
  ['generation', ({ generation }) => generation],
  ['attempts', ({ facts }) => facts.attempts],
  ['resent', ({ facts }) => facts.resent],
  ['finish_reason', ({ facts }) => facts.finishReason, 128],
  ['client_address', ({ remoteAddress }) => remoteAddress],
];

/** What decides the members that are not copies of one value. */
const sources: readonly Read[] = [
  ...members.map(([, read]) => read),
  ({ originalPath }) => originalPath,
  (context) => context.header('user-agent') ?? '',
  (context) => context.header('x-stainless-lang') ?? '',
  (context) => context.header('x-stainless-package-version') ?? '',
  (context) => context.service('package-version') ?? '',
  (context) => context.service('sensitive-headers') ?? '',
];

/** Keys whose latest texts are kept, and how many of each: of as many kinds of requests as a caller makes in turn. */
const maxKeys = 512;
const maxTexts = 4;
/** Longer ones are not kept: somebody's path is in them. */
const maxKeptLength = 4096;

/** What rows begin with, both of requests and of bodies, behind their id and time. */
export interface CommonText {
  /** Of a row of a request: its members, each with its comma before it. */
  readonly members: string;
  /** Of a row of bodies. */
  readonly place: string;
}

interface KnownText extends CommonText {
  readonly values: readonly Value[];
}

/** The texts of one key, and which of them is replaced next. */
interface TextsOfKey {
  readonly texts: KnownText[];
  next: number;
}

/**
 * The members that a row shares with earlier ones of its key are written once: most of a row is the same in the next
 * one, and to compare thirty values costs a tenth of what it takes to write them.
 */
export class CommonMembers {
  private readonly redaction: Redaction | undefined;
  private readonly known = new RecentMap<TextsOfKey>(maxKeys);

  constructor(redaction: Redaction | undefined) {
    this.redaction = redaction;
  }

  of(context: RequestContext, outcome: Outcome): CommonText {
    const { apiKeyId } = context.facts;
    const ofKey = this.known.get(apiKeyId);
    if (ofKey !== undefined)
      for (const known of ofKey.texts) if (holdsFor(known.values, context, outcome)) return known;
    const fresh = this.write(context, outcome);
    if (fresh.members.length > maxKeptLength) return fresh;
    if (ofKey === undefined) {
      this.known.set(apiKeyId, { texts: [fresh], next: 1 });
    } else {
      ofKey.texts[ofKey.next] = fresh;
      ofKey.next = (ofKey.next + 1) % maxTexts;
    }
    return fresh;
  }

  private write(context: RequestContext, outcome: Outcome): KnownText {
    const { originalPath, facts } = context;
    let written = '';
    for (const [name, read, length] of members) written += member(name, read(context, outcome), length);
    written += text('path', clip(redacted(originalPath, this.redaction), 2048)) + client(context);
    const place = text('organisation_id', facts.organisationId) + text('workspace_id', facts.workspaceId);
    return {
      values: sources.map((read) => read(context, outcome)),
      members: flat(written),
      place: flat(place),
    };
  }
}

function holdsFor(values: readonly Value[], context: RequestContext, outcome: Outcome): boolean {
  for (let i = 0; i < sources.length; i++)
    if (values[i] !== (sources[i] as Read)(context, outcome)) return false;
  return true;
}

/** The same text in one piece: V8 keeps a joined one as a tree, which would be walked for every row. */
function flat(joined: string): string {
  return Buffer.from(joined).toString();
}

function member(name: keyof RequestRow, value: Value, length: number | undefined): string {
  if (typeof value === 'number') return number(name, value);
  if (typeof value === 'boolean') return flag(name, value);
  return text(name, length === undefined ? value : clip(value, length));
}

/** 2xx, and a WebSocket that was relayed (101). */
function isSuccess(status: number): boolean {
  return (status >= 200 && status < 300) || status === 101;
}

/** Who is to blame: whoever raised the error, or the provider when its own error answer was passed on. */
function errorSource({ facts }: RequestContext, { error, status }: Outcome): RequestRow['error_source'] {
  if (error) return error.source;
  return status >= 400 && facts.upstreamStartedAt > 0 ? 'provider' : '';
}

/**
 * The program that asked. Its user agent stands there as a digest where the request calls this header sensitive: equal
 * ones stay equal, and tell nothing else.
 */
function client(context: RequestContext): string {
  const agent = context.header('user-agent') ?? '';
  const sensitive = context.service('sensitive-headers');
  if (sensitive === undefined || agent === '' || !headerNameList(sensitive).includes('user-agent'))
    return text('user_agent', clip(agent, 256)) + text('sdk', sdkOf(context, agent));
  return text('user_agent', `sha256:${sha256(agent, 'hex')}`) + text('sdk', sdkOf(context, ''));
}

// One member of a row each, with its comma; empty for a value that says nothing.

export function text(name: keyof RequestRow, value: string): string {
  return value === '' ? '' : `,"${name}":${quote(value)}`;
}

export function number(name: keyof RequestRow, value: number): string {
  return value === 0 ? '' : `,"${name}":${value}`;
}

function flag(name: keyof RequestRow, value: boolean): string {
  return value ? `,"${name}":true` : '';
}

export function list(name: keyof RequestRow, values: readonly string[]): string {
  return values.length === 0 ? '' : `,"${name}":${JSON.stringify(values.map((value) => clip(value, 128)))}`;
}

export function duration(name: keyof RequestRow, ms: number): string {
  return ms < 0.0005 ? '' : `,"${name}":${milliseconds(ms)}`;
}

/** `.000` to `.999`: writing a fraction is many times dearer than looking it up. */
const thousandths = Array.from({ length: 1000 }, (_, n) => `.${String(n).padStart(3, '0')}`);

/** With three digits after the point, never negative: more would be noise, and costs time to write. */
export function milliseconds(ms: number): string {
  const micros = ms > 0 ? Math.round(ms * 1000) : 0;
  return `${Math.floor(micros / 1000)}${thousandths[micros % 1000]}`;
}

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
export function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** Without what `redaction` takes out. */
export function redacted(value: string, redaction: Redaction | undefined): string {
  return redaction === undefined ? value : redaction.text(value);
}
