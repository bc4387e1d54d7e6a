import { noUsage, type Usage } from '../dialects/usage.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/** Bytes of JSON that are taken for one token: near enough to rank prices. */
const bytesPerToken = 4;
/** Tokens of an answer when the request does not bound it. */
const usualCompletion = 512;
/** Members by which wires bound the answer. */
const bounds = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/** What a request will probably use, told from its size and the bound that it sets. For comparing prices only. */
export function estimatedUsage({ body }: Exchange): Usage {
  const promptTokens = body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0;
  const { json } = body.loaded ? body : { json: undefined };
  const object = typeof json === 'object' && json !== null && !Array.isArray(json) ? json : {};
  const bound = bounds.map((name) => object[name]).find((value) => typeof value === 'number');
  return usageOf(promptTokens, typeof bound === 'number' ? bound : usualCompletion);
}

/** What a provider has certainly been sent by a request whose answer nobody waited for. */
export function sentUsage({ body }: Exchange): Usage {
  return usageOf(body.loaded ? Math.ceil(body.bytes.length / bytesPerToken) : 0, 0);
}

function usageOf(promptTokens: number, completionTokens: number): Usage {
  return { ...noUsage, promptTokens, completionTokens, totalTokens: promptTokens + completionTokens };
}
