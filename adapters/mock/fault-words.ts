/** What a fault word takes as its value. */
export type FaultWord =
  | { readonly kind: 'integer'; readonly minimum: number; readonly maximum: number }
  | { readonly kind: 'share' }
  | { readonly kind: 'flag' }
  | { readonly kind: 'choice'; readonly values: readonly string[] };

const integer = (minimum: number, maximum: number) => ({ kind: 'integer', minimum, maximum }) as const;
const flag = { kind: 'flag' } as const;

/** Most chunks that a fault can count to. */
const lastChunk = 100_000;

/** The most tokens that one answer holds, all choices together. */
export const maxAnswerTokens = 100_000;

/** Every word that steers the mock provider, in YAML, in a header or in a model's name; `docs/mock-provider.md` explains each. */
export const faultWords = {
  // How the answer looks
  tokens: integer(1, maxAnswerTokens),
  chunk_tokens: integer(1, 10_000),
  tool_calls: integer(1, 16),
  refusal: flag,
  usage: { kind: 'choice', values: ['none'] },
  encoding: { kind: 'choice', values: ['gzip', 'br'] },
  echo_headers: flag,
  // How long it takes
  latency_ms: integer(0, 600_000),
  chunk_latency_ms: integer(0, 60_000),
  // What goes wrong
  status: integer(400, 599),
  retry_after: integer(0, 86_400),
  reset_before_head: flag,
  stall_before_head: flag,
  reset_after_chunks: integer(0, lastChunk),
  stall_after_chunks: integer(0, lastChunk),
  error_after_chunks: integer(0, lastChunk),
  malformed_after_chunks: integer(0, lastChunk),
  content_length_mismatch: flag,
  no_done: flag,
  fail_rate: { kind: 'share' },
} as const satisfies Record<string, FaultWord>;

export type FaultName = keyof typeof faultWords;

type FaultValue<W> = W extends { kind: 'choice'; values: readonly (infer V)[] }
  ? V
  : W extends { kind: 'flag' }
    ? true
    : number;

/** The faults of one request, by the words that asked for them. */
export type Faults = { readonly [K in FaultName]?: FaultValue<(typeof faultWords)[K]> };

/** The words that make a request fail; `fail_rate` decides for how many requests they count. */
export const failureWords: readonly FaultName[] = [
  'status',
  'retry_after',
  'reset_before_head',
  'stall_before_head',
  'reset_after_chunks',
  'stall_after_chunks',
  'error_after_chunks',
  'malformed_after_chunks',
  'content_length_mismatch',
  'no_done',
];
