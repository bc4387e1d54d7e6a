interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** The `logprobs` of a choice, or null when none are asked for (`top` is undefined). */
export function choiceLogprobs(
  kind: 'text' | 'refusal' | 'tools',
  tokens: readonly string[],
  top: number | undefined,
): object | null {
  if (top === undefined) return null;
  const entries = logprobsOf(tokens, top);
  return kind === 'refusal' ? { content: null, refusal: entries } : { content: entries, refusal: null };
}

/** Log probabilities of tokens, invented but always the same for the same token; `top` alternatives each. */
function logprobsOf(tokens: readonly string[], top: number): object[] {
  return tokens.map((token) => {
    const logprob = logprobOf(token);
    const alternatives: TokenLogprob[] = [];
    for (let i = 0; i < top; i++) {
      alternatives.push(entry(i === 0 ? token : `${token}${i}`, i === 0 ? logprob : logprob - i));
    }
    return { ...entry(token, logprob), top_logprobs: alternatives };
  });
}

/** The log probability of one token. */
export function logprobOf(token: string): number {
  return -((weight(token) % 1000) + 1) / 10_000;
}

function entry(token: string, logprob: number): TokenLogprob {
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

function weight(token: string): number {
  let sum = 7;
  for (let i = 0; i < token.length; i++) sum = (sum * 31 + token.charCodeAt(i)) % 1_000_003;
  return sum;
}
