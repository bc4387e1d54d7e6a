import { noUsage, type Usage } from '../dialects/usage.ts';
import type { BudgetAmounts } from '../ports/budgets.ts';
import type { Outcome, RequestContext } from './context.ts';

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
  if (facts.usage !== undefined)
    return { cost: Number(outcome.price.cost) + facts.lostCost, tokens: facts.usage.totalTokens, requests };
  const isUnknown = kind === 'cancelled' && facts.attempts > 0;
  return isUnknown ? { ...reserved, requests } : { cost: facts.lostCost, tokens: 0, requests };
}

function usageOf(promptTokens: number, completionTokens: number): Usage {
  return { ...noUsage, promptTokens, completionTokens, totalTokens: promptTokens + completionTokens };
}
