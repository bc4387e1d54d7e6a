import { noUsage, type Usage } from '../dialects/usage.ts';
import { RecentMap } from '../base/recent-map.ts';
import type { BudgetAmounts, ExpectedUse } from '../ports/budgets.ts';
import type { Limiter } from '../ports/counters.ts';
import type { PricedModels, Prices } from '../ports/prices.ts';
import { defineKey, type Outcome, type RequestContext } from './context.ts';
import type { RequestFacts } from './facts.ts';

/** Bytes of JSON that are taken for one token: near enough to rank prices. */
const bytesPerToken = 4;
/** Tokens of an answer when the request does not bound it. */
const defaultCompletion = 512;
/** Members by which wires bound the answer. */
const bounds = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/** Estimates a request's usage from its size and the bound that it sets. Near enough to compare prices. */
export function estimatedUsage({ body }: Pick<RequestContext, 'body'>): Usage {
  const promptTokens = body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0;
  return usageOf(promptTokens, boundOf(membersOf(body)) ?? defaultCompletion);
}

function membersOf(body: RequestContext['body']): Readonly<Record<string, unknown>> {
  const { json } = body.loaded ? body : { json: undefined };
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json : {};
}

function boundOf(members: Readonly<Record<string, unknown>>): number | undefined {
  for (const name of bounds) {
    const value = members[name];
    if (typeof value === 'number' && value >= 0) return value;
  }
  return undefined;
}

/** Most models that are learned at once; requests choose the names. */
const maxModels = 1000;
const longestModel = 128;
/** Weight of a new request in the expectation for the next one. */
const learning = 0.1;
/** A body with pictures has many bytes for each of its tokens; it must not make texts free. */
const minBytesPerToken = 0.25;
const maxBytesPerToken = 64;
const maxTokens = 10_000_000;

interface ModelUsage {
  bytesPerToken: number;
  completionTokens: number;
  /** US dollars, of the request and of the answer alike. */
  costPerToken: number;
}

/** Provider and model that will probably price a request's tokens. */
export interface ExpectedPrice {
  /** Kind of provider (`openai`), or the prices of an integration instead. */
  readonly provider: string | PricedModels;
  readonly model: string;
  /** The config of the request may also choose another target. */
  readonly isOneOfSeveral: boolean;
}

/** Input for estimating the cost of a request before it is sent. */
interface ExpectedPricing {
  readonly prices: Pick<Prices, 'price'>;
  /** Undefined where the target of the request is unknown. */
  readonly price: ExpectedPrice | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/**
 * Usual usage of requests, by the model that they name: bytes of their bodies per token, tokens of their answers, and
 * dollars per token. Learned from requests that have ended, without looking at any text.
 */
class LearnedUsage {
  readonly #models = new RecentMap<ModelUsage>(maxModels);

  /**
   * Estimates a request's usage: at least 1 token, and for its answer the usual number, within the bound that it sets.
   * With `pricing` also the cost: at the price of the one target that it goes to, else at the past cost per token of
   * requests that name its model, else at the price of the first of its targets; undefined where all are unknown.
   */
  expectedOf(
    { body, endpoint }: Pick<RequestContext, 'body' | 'endpoint'>,
    pricing?: ExpectedPricing,
  ): ExpectedUse {
    const members = membersOf(body);
    const known = this.#models.get(modelOf(members, endpoint.id));
    const bytes = body.loaded ? body.bytes.length : 0;
    const bound = Math.min(boundOf(members) ?? Infinity, maxTokens);
    const said = known?.completionTokens ?? (bound < maxTokens ? bound : defaultCompletion);
    const promptTokens = Math.ceil(bytes / (known?.bytesPerToken ?? bytesPerToken));
    const completionTokens = Math.ceil(Math.min(said, bound));
    const tokens = Math.max(1, promptTokens + completionTokens);
    if (pricing === undefined) return { tokens, cost: undefined };
    const learned = known && known.costPerToken * tokens;
    if (learned !== undefined && pricing.price?.isOneOfSeveral === true) return { tokens, cost: learned };
    return { tokens, cost: pricedCost(usageOf(promptTokens, completionTokens), pricing) ?? learned };
  }

  /**
   * Takes the usage and the cost of a request that has ended. Estimated usage and cache hits are left out.
   */
  learn(
    { body, endpoint, facts }: Pick<RequestContext, 'body' | 'endpoint' | 'facts'>,
    { price }: Pick<Outcome, 'price'>,
  ): void {
    const { usage, isUsageEstimated, cacheStatus } = facts;
    if (usage === undefined || isUsageEstimated || !body.loaded || cacheStatus.includes('HIT')) return;
    const { promptTokens, completionTokens } = usage;
    if (!(promptTokens > 0) || !(completionTokens >= 0)) return;
    const model = modelOf(membersOf(body), endpoint.id);
    if (model.length > longestModel) return;
    const bytes = Math.min(Math.max(body.bytes.length / promptTokens, minBytesPerToken), maxBytesPerToken);
    const said = Math.min(completionTokens, maxTokens);
    const costPerToken = Number(price.cost) / (promptTokens + completionTokens);
    const known = this.#models.touch(model);
    if (known === undefined)
      this.#models.set(model, { bytesPerToken: bytes, completionTokens: said, costPerToken });
    else {
      known.bytesPerToken += (bytes - known.bytesPerToken) * learning;
      known.completionTokens += (said - known.completionTokens) * learning;
      known.costPerToken += (costPerToken - known.costPerToken) * learning;
    }
  }
}

function pricedCost(usage: Usage, { prices, price, at }: ExpectedPricing): number | undefined {
  if (price === undefined) return undefined;
  const { cost, status } = prices.price(usage, price.provider, price.model, at);
  return status === 'priced' ? Number(cost) : undefined;
}

/** Where the body names no model, all requests of the operation count as one model. */
function modelOf({ model }: Readonly<Record<string, unknown>>, endpoint: string): string {
  return typeof model === 'string' ? model : endpoint;
}

const ofLimiters = new WeakMap<Limiter, LearnedUsage>();

/** The `LearnedUsage` of a limiter; it survives a reload. */
export function learnedUsageOf(limiter: Limiter): LearnedUsage {
  let learned = ofLimiters.get(limiter);
  if (learned === undefined) ofLimiters.set(limiter, (learned = new LearnedUsage()));
  return learned;
}

/**
 * Learns from the request when it has ended. Set once its usage has been estimated here, for its key's limits or its
 * target's.
 */
export const learnsFrom = defineKey<LearnedUsage>('learns-from');

/** Usage that a request has certainly sent to a provider, although its answer was abandoned: its prompt, by size. */
export function sentUsage({ body }: Pick<RequestContext, 'body'>): Usage {
  return usageOf(body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0, 0);
}

/**
 * Amounts that count for an ended request which had `reserved` at first. When the client leaves while a provider works
 * on its request, the usage is unknown: the reserved amounts stay.
 */
export function countedUsage(
  { facts }: Pick<RequestContext, 'facts'>,
  outcome: Pick<Outcome, 'kind' | 'price'>,
  reserved: BudgetAmounts,
): BudgetAmounts {
  const { kind } = outcome;
  const requests = kind === 'refused' && facts.attempts === 0 ? 0 : 1;
  if (facts.cacheStatus.includes('HIT')) return { cost: 0, tokens: 0, requests };
  if (facts.usage !== undefined) {
    const cost = Number(outcome.price.cost) + facts.lostCost;
    const tokens = facts.usage.totalTokens;
    // The provider may have worked on an answer before its first byte came.
    if (facts.isUsageEstimated && facts.firstTokenAt === 0)
      return { cost: Math.max(cost, reserved.cost), tokens: Math.max(tokens, reserved.tokens), requests };
    return { cost, tokens, requests };
  }
  const isUnknown = kind === 'cancelled' && facts.attempts > 0;
  return isUnknown ? { ...reserved, requests } : { cost: facts.lostCost, tokens: 0, requests };
}

/** Bytes of a broken-off answer that are looked at; the rest is taken to be alike. */
const maxScanned = 262_144;
const maxNodes = 100_000;
/** Bytes of a stream for one token, where its text is not known. */
const streamBytesPerToken = 100;
/** Members that carry the model's output in events of all wires. */
const spoken: ReadonlySet<string> = new Set([
  ...['content', 'text', 'thinking', 'reasoning', 'reasoning_content', 'refusal'],
  ...['arguments', 'partial_json', 'delta'],
]);

/**
 * Estimates the usage of a request whose answer was broken off by the client or by a failure: the usage reported so far,
 * the prompt by the size of its texts, and the answer by the text that was sent, as far as it was kept. Undefined where
 * nothing was used, or all of it was reported.
 */
export function unfinishedUsage(
  {
    body,
    endpoint,
    facts,
  }: Pick<RequestContext, 'body' | 'endpoint'> & {
    readonly facts: Pick<
      RequestFacts,
      | 'attempts'
      | 'cacheStatus'
      | 'usage'
      | 'finishReason'
      | 'upstreamStartedAt'
      | 'firstTokenAt'
      | 'responseBytes'
    >;
  },
  kind: Outcome['kind'],
  sent: Buffer | undefined,
): Usage | undefined {
  const { usage, firstTokenAt, responseBytes } = facts;
  if (kind !== 'cancelled' && !(kind === 'failed' && firstTokenAt > 0)) return undefined;
  if (facts.upstreamStartedAt === 0 || facts.attempts === 0 || !endpoint.modelled) return undefined;
  if (facts.cacheStatus.includes('HIT') || (usage !== undefined && facts.finishReason !== ''))
    return undefined;
  const reported = usage ?? noUsage;
  const promptTokens = reported.promptTokens || promptSize(body);
  const said = firstTokenAt === 0 ? 0 : answerSize(sent, responseBytes);
  const completionTokens = Math.max(reported.completionTokens, said);
  return { ...reported, promptTokens, completionTokens, totalTokens: promptTokens + completionTokens };
}

function promptSize(body: RequestContext['body']): number {
  const json = body.loaded ? body.json : undefined;
  if (json === undefined) return 0;
  // The size of pictures and sound does not tell their tokens.
  const letters = countLetters(json, (name, text) => name !== 'data' && !text.startsWith('data:'));
  return Math.ceil(letters / bytesPerToken);
}

function answerSize(sent: Buffer | undefined, responseBytes: number): number {
  const scanned = sent?.subarray(0, maxScanned);
  let letters = 0;
  for (const line of scanned?.toString('utf8').split('\n') ?? []) {
    if (!line.startsWith('data:')) continue;
    try {
      letters += countLetters(JSON.parse(line.slice(5)), (name) => spoken.has(name));
    } catch {
      // The last event was cut, or it is not JSON.
    }
  }
  if (scanned === undefined || letters === 0) return Math.ceil(responseBytes / streamBytesPerToken);
  return Math.ceil((letters / bytesPerToken) * Math.max(1, responseBytes / scanned.length));
}

/** The length of all texts that `counts` accepts, by the name of their member. */
function countLetters(json: unknown, counts: (name: string, text: string) => boolean): number {
  let letters = 0;
  const waiting: [name: string, value: unknown][] = [['', json]];
  for (let nodes = 0; nodes < maxNodes; nodes++) {
    const next = waiting.pop();
    if (next === undefined) break;
    const [name, value] = next;
    if (typeof value === 'string') letters += counts(name, value) ? value.length : 0;
    else if (Array.isArray(value)) for (const one of value) waiting.push([name, one]);
    else if (typeof value === 'object' && value !== null)
      for (const [member, one] of Object.entries(value)) waiting.push([member, one]);
  }
  return letters;
}

function usageOf(promptTokens: number, completionTokens: number): Usage {
  return { ...noUsage, promptTokens, completionTokens, totalTokens: promptTokens + completionTokens };
}
