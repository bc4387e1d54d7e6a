import type { Outcome, RequestContext } from '../../core/pipeline/context.ts';
import { headerNameList } from '../../core/base/header-names.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { sha256 } from '../../core/base/sha256.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { clip, flag, number, redacted, text } from './members.ts';
import { sdkOf } from './sdk.ts';

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
