import { GatewayError } from '../errors/gateway-error.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { loggedAttempt, type LoggedAttempt, roundedMs } from './facts.ts';
import { isPromise } from '../base/turns.ts';
import type { RequestContext } from './context.ts';
import { callerKey } from './keys.ts';

/** Bytes that are kept free for the end of the document. */
const endBytes = 32;

/** Writes one JSON object that stays within a bound: lists end early, and the object then says `truncated`. */
export class BoundedJson {
  private readonly members: string[] = [];
  private left: number;
  private truncated = false;

  /** `maxBytes` of UTF-8. */
  constructor(maxBytes: number) {
    this.left = maxBytes - endBytes;
  }

  /** Adds a member; leaves it out when there is no room. */
  member(name: string, value: unknown): void {
    const text = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
    if (this.takes(text)) this.members.push(text);
  }

  /** Adds a list, with as many of its first items as there is room for. */
  list(name: string, items: readonly unknown[]): void {
    const start = `${JSON.stringify(name)}:[]`;
    if (!this.takes(start)) return;
    const kept: string[] = [];
    for (const item of items) {
      const text = JSON.stringify(item);
      if (!this.takes(text)) break;
      kept.push(text);
    }
    this.members.push(`${start.slice(0, -1)}${kept.join(',')}]`);
  }

  /** The document. `truncated`: a part had been left out before. */
  end(truncated: boolean): string {
    if (truncated || this.truncated) this.members.push('"truncated":true');
    return `{${this.members.join(',')}}`;
  }

  private takes(text: string): boolean {
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > this.left) {
      this.truncated = true;
      return false;
    }
    this.left -= bytes;
    return true;
  }
}

/** One call of a plugin. */
interface HookNote {
  readonly plugin: string;
  readonly hook: string;
  /** Number of the attempt, for hooks of attempts. */
  readonly attempt?: number;
  ms: number;
  /** Code of the refusal, or `failed`. */
  error?: string;
  /** Why it was not called. */
  skipped?: string;
}

/** Part of an `Exchange` that its trace reads. */
interface TracedRequest extends Pick<RequestContext, 'facts' | 'get' | 'addResponseHeader'> {
  /** Milliseconds since the epoch, and of the monotonic clock. */
  readonly startedAt: number;
  readonly startedMonotonic: number;
  /** Flat: name, value. */
  readonly responseHeaders: readonly string[];
}

/** Settings of one trace. */
interface DecisionTraceSetup {
  /** Of the gateway's own headers, with its dash: `x-service-`. */
  readonly prefix: string;
  /** Where the log entry of this request can be read: `/v1/logs/ID`. */
  readonly link: string;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** The scope that a key needs. */
const scope = 'logs.view';
/** Candidates of one trace. */
const maxCandidates = 512;
/** Calls of plugins in one trace. */
const maxHooks = 256;
/** Longest name of a candidate, in UTF-16 units. */
const maxName = 128;
/** Bytes of the JSON of one trace. */
const maxBytes = 65_536;

/**
 * Why a request was served as it was, for one that asked (`x-service-explain: true`) with a key that may read logs.
 * Begins at acceptance, so that it is complete; kept only once the key is known to be allowed. Holds neither
 * credentials nor values of the request's headers nor texts of its body.
 */
export class DecisionTrace implements PlanTrace {
  private readonly setup: DecisionTraceSetup;
  private readonly branches: BranchDecision[] = [];
  private readonly hooks: HookNote[] = [];
  private candidates = 0;
  private truncated = false;
  private allowed = false;
  private bodyReadAt = 0;
  private configId: string | undefined;

  constructor(setup: DecisionTraceSetup) {
    this.setup = setup;
  }

  /**
   * Keeps the trace, and links to it from the answer, once a key is known. Throws `scope_missing` for one that may not
   * have it.
   */
  authorise(exchange: TracedRequest): void {
    if (this.allowed) return;
    const key = exchange.get(callerKey);
    if (key === undefined) return;
    if (!mayExplain(key)) throw this.refusal(`"${key.name}" has not`);
    const { prefix, link } = this.setup;
    this.allowed = true;
    exchange.addResponseHeader(`${prefix}explain`, link);
  }

  /** The same once no further key can come: throws `scope_missing` for a request without one, too. */
  require(exchange: TracedRequest): void {
    this.authorise(exchange);
    if (!this.allowed) throw this.refusal('this request came without one');
  }

  private refusal(reason: string): GatewayError {
    return new GatewayError(
      'scope_missing',
      `"${this.setup.prefix}explain: true" needs an owner's key or one with the scope "${scope}", and ${reason}. Leave the header out, or use such a key.`,
      { param: 'explain' },
    );
  }

  /** The config whose plan follows. */
  config(id: string): void {
    this.configId = id;
  }

  branch(decision: BranchDecision): void {
    const room = maxCandidates - this.candidates;
    const kept = decision.candidates.slice(0, room).map(withShortName);
    if (kept.length < decision.candidates.length) this.truncated = true;
    if (kept.length === 0) return;
    this.candidates += kept.length;
    this.branches.push({ ...decision, candidates: kept });
  }

  /** The request's body is in memory. */
  bodyRead(): void {
    this.bodyReadAt = this.setup.now();
  }

  /** A hook of a plugin is about to run; `attempt` is the number of the attempt, for hooks of attempts. */
  begin(plugin: string, hook: string, attempt: number | undefined): HookNote {
    const note: HookNote = { plugin, hook, ...(attempt !== undefined && { attempt }), ms: 0 };
    if (this.hooks.length < maxHooks) this.hooks.push(note);
    else this.truncated = true;
    return note;
  }

  /** Runs the hook and notes how long it took; a promise counts until it settles. */
  measure<T>(note: HookNote, run: () => T | Promise<T>): T | Promise<T> {
    const startedAt = this.setup.now();
    const ended = (error?: unknown): void => {
      note.ms = roundedMs(this.setup.now() - startedAt);
      if (error !== undefined) note.error = GatewayError.is(error) ? error.code : 'failed';
    };
    try {
      const result = run();
      if (!isPromise(result)) {
        ended();
        return result;
      }
      return result.then(
        (value) => {
          ended();
          return value;
        },
        (error: unknown) => {
          ended(error ?? 'failed');
          throw error;
        },
      );
    } catch (error) {
      ended(error ?? 'failed');
      throw error;
    }
  }

  /** The trace as JSON of 64 KiB at the most; empty when its caller was not allowed to have it. */
  json(exchange: TracedRequest, status: number, error: string): string {
    if (!this.allowed) return '';
    const endedAt = this.setup.now();
    const json = new BoundedJson(maxBytes);
    json.member('config', this.configId ?? null);
    json.member('cache', exchange.facts.cacheStatus || 'DISABLED');
    json.member('timings', this.timings(exchange, endedAt));
    const limits = limitsOf(exchange, this.setup.prefix);
    if (limits !== undefined) json.member('limits', limits);
    const { attemptRecords } = exchange.facts;
    json.list(
      'attempts',
      attemptRecords.length > 0
        ? attemptRecords.map(loggedAttempt)
        : onlyAttempt(exchange, status, error, endedAt),
    );
    json.list('plugins', this.hooks);
    json.list('plan', this.branches);
    return json.end(this.truncated);
  }

  private timings(
    { facts, startedAt, startedMonotonic }: TracedRequest,
    endedAt: number,
  ): Record<string, string | number> {
    const timings: Record<string, string | number> = { accepted: new Date(startedAt).toISOString() };
    const moments = {
      body_read_ms: this.bodyReadAt,
      upstream_started_ms: facts.upstreamStartedAt,
      first_byte_ms: facts.firstByteAt,
      first_token_ms: facts.firstTokenAt,
      upstream_ended_ms: facts.upstreamEndedAt,
      end_ms: endedAt,
    };
    for (const [name, at] of Object.entries(moments)) {
      if (at > 0) timings[name] = roundedMs(at - startedMonotonic);
    }
    return timings;
  }
}

function mayExplain({ kind, scopes }: KeyRecord): boolean {
  return kind === 'owner' || scopes.includes('*') || scopes.includes(scope);
}

function withShortName(note: CandidateNote): CandidateNote {
  const { name } = note;
  return name === undefined || name.length <= maxName ? note : { ...note, name: name.slice(0, maxName) };
}

/** The one attempt of a request without a config, if a provider was asked. */
function onlyAttempt(
  exchange: TracedRequest,
  status: number,
  error: string,
  endedAt: number,
): readonly LoggedAttempt[] {
  const { facts, startedMonotonic: accepted } = exchange;
  const { provider, option, modelRequested: model, upstreamStartedAt: startedAt } = facts;
  if (startedAt === 0) return [];
  const times = { startedMs: startedAt - accepted, endedMs: (facts.upstreamEndedAt || endedAt) - accepted };
  return [loggedAttempt({ option, provider, model, status, error, ...times, lost: false })];
}

/**
 * The answer's rate limit headers (`x-service-ratelimit-remaining`), by their names without this prefix.
 */
function limitsOf(
  { responseHeaders }: TracedRequest,
  servicePrefix: string,
): Record<string, string> | undefined {
  const prefix = `${servicePrefix}ratelimit-`;
  let found: Record<string, string> | undefined;
  for (let i = 0; i < responseHeaders.length; i += 2) {
    const name = responseHeaders[i] as string;
    if (name.startsWith(prefix)) (found ??= {})[name.slice(prefix.length)] = responseHeaders[i + 1] as string;
  }
  return found;
}

/** Receives the decisions of a plan. */
export interface PlanTrace {
  branch(decision: BranchDecision): void;
}

/** Decision of one branch. */
export interface BranchDecision {
  readonly path: string;
  /** Name of the strategy: `fallback`. */
  readonly mode: string;
  /** In file order. */
  readonly candidates: readonly CandidateNote[];
  /** Reason of the decision, where the candidates do not show it: `condition 2 matched`. */
  readonly reason?: string;
}

/** A branch's assessment of one of its children. */
export interface CandidateNote {
  readonly path: string;
  readonly name?: string;
  /** Place in the order of trying, from 1 on; absent for one that will not be tried. */
  readonly order?: number;
  /** Value that ranked it: weight, milliseconds or US dollars. */
  readonly score?: number;
  /** Why it was left out: `breaker open`, `weight 0`. */
  readonly skipped?: string;
}
