import { noUsage, type Usage } from '../dialects/usage.ts';
import type { BudgetAmounts } from '../ports/budgets.ts';
import type { Outcome, RequestContext } from './context.ts';
import type { RequestFacts } from './facts.ts';

/** Bytes of JSON that are taken for one token: near enough to rank prices. */
const bytesPerToken = 4;
/** Tokens of an answer when the request does not bound it. */
const usualCompletion = 512;
/** Members by which wires bound the answer. */
const bounds = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/** What a request will probably use, told from its size and the bound that it sets. Near enough to compare prices, and to reserve from a limit until it is known. */
export function estimatedUsage({ body }: Pick<RequestContext, 'body'>): Usage {
  const promptTokens = body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0;
  const { json } = body.loaded ? body : { json: undefined };
  const object = typeof json === 'object' && json !== null && !Array.isArray(json) ? json : {};
  const bound = bounds.map((name) => object[name]).find((value) => typeof value === 'number');
  return usageOf(promptTokens, typeof bound === 'number' ? bound : usualCompletion);
}

/** What a provider has certainly been sent by a request whose answer nobody waited for. */
export function sentUsage({ body }: Pick<RequestContext, 'body'>): Usage {
  return usageOf(body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0, 0);
}

/**
 * What counts for a request that has ended, of which `reserved` was taken at first. When the client leaves while a
 * provider works on its request, nothing says what was used: what was reserved stays.
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
    // The provider may have worked on an answer of which nothing had come.
    if (facts.isUsageEstimated && facts.firstTokenAt === 0)
      return { cost: Math.max(cost, reserved.cost), tokens: Math.max(tokens, reserved.tokens), requests };
    return { cost, tokens, requests };
  }
  const isUnknown = kind === 'cancelled' && facts.attempts > 0;
  return isUnknown ? { ...reserved, requests } : { cost: facts.lostCost, tokens: 0, requests };
}

/** Bytes that are looked at of an answer that was broken off; the rest is taken to be alike. */
const mostScanned = 262_144;
const mostNodes = 100_000;
/** Bytes of a stream for one token, where its text is not known. */
const streamBytesPerToken = 100;
/** Members in which events of all wires carry what a model says. */
const spoken: ReadonlySet<string> = new Set([
  ...['content', 'text', 'thinking', 'reasoning', 'reasoning_content', 'refusal'],
  ...['arguments', 'partial_json', 'delta'],
]);

/**
 * What a request has probably used whose answer was broken off by the client or by a failure: what was reported so far,
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
  // Pictures and sound are no text: what they cost is not told by their size.
  const letters = lettersIn(json, (name, text) => name !== 'data' && !text.startsWith('data:'));
  return Math.ceil(letters / bytesPerToken);
}

function answerSize(sent: Buffer | undefined, responseBytes: number): number {
  const scanned = sent?.subarray(0, mostScanned);
  let letters = 0;
  for (const line of scanned?.toString('utf8').split('\n') ?? []) {
    if (!line.startsWith('data:')) continue;
    try {
      letters += lettersIn(JSON.parse(line.slice(5)), (name) => spoken.has(name));
    } catch {
      // The last event was cut, or it is none in JSON.
    }
  }
  if (scanned === undefined || letters === 0) return Math.ceil(responseBytes / streamBytesPerToken);
  return Math.ceil((letters / bytesPerToken) * Math.max(1, responseBytes / scanned.length));
}

/** The length of all texts that `counts`, by the name of the member they stand in. */
function lettersIn(json: unknown, counts: (name: string, text: string) => boolean): number {
  let letters = 0;
  const waiting: [name: string, value: unknown][] = [['', json]];
  for (let nodes = 0; nodes < mostNodes; nodes++) {
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
