import { MockProblem } from './answer.ts';

const maxKeys = 256;

/**
 * Decides by counting, never by chance, which requests of a series fail: with a rate of 0.25 the 4th, 8th, 12th … Keeps
 * counts for the 256 most recently used series.
 */
export class FailCounter {
  readonly #counts = new Map<string, number>();

  /** True when the next request of the series `key` fails. */
  next(key: string, rate: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    this.#counts.delete(key);
    this.#counts.set(key, count + 1);
    if (this.#counts.size > maxKeys) {
      const oldest = this.#counts.keys().next();
      if (!oldest.done) this.#counts.delete(oldest.value);
    }
    return share(count + 1, rate) > share(count, rate);
  }
}

/** Number of failures among `count` requests; the tiny addend keeps 10 × 0.1 from being less than 1. */
function share(count: number, rate: number): number {
  return Math.floor(count * rate + 1e-9);
}

/** Type of a fault's value. */
type FaultWord =
  | { readonly kind: 'integer'; readonly minimum: number; readonly maximum: number }
  | { readonly kind: 'share' }
  | { readonly kind: 'flag' }
  | { readonly kind: 'choice'; readonly values: readonly string[] };

const integer = (minimum: number, maximum: number) => ({ kind: 'integer', minimum, maximum }) as const;
const flag = { kind: 'flag' } as const;

/** Upper bound of chunks that a fault can count to. */
const lastChunk = 100_000;

/** Upper bound of tokens in one answer, all choices together. */
export const maxAnswerTokens = 100_000;

/**
 * Every fault of the mock provider, in YAML, in a header or in a model's name; `docs/mock-provider.md` explains each.
 */
export const faultWords = {
  // Form of the answer
  tokens: integer(1, maxAnswerTokens),
  chunk_tokens: integer(1, 10_000),
  tool_calls: integer(1, 16),
  refusal: flag,
  usage: { kind: 'choice', values: ['none'] },
  encoding: { kind: 'choice', values: ['gzip', 'br'] },
  echo_headers: flag,
  // Timing
  latency_ms: integer(0, 600_000),
  chunk_latency_ms: integer(0, 60_000),
  // Failures
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

type FaultName = keyof typeof faultWords;

type FaultValue<W> = W extends { kind: 'choice'; values: readonly (infer V)[] }
  ? V
  : W extends { kind: 'flag' }
    ? true
    : number;

/** The faults of one request, by name. */
export type Faults = { readonly [K in FaultName]?: FaultValue<(typeof faultWords)[K]> };

/** Faults that make a request fail; `fail_rate` limits them to a share of requests. */
const failureWords: readonly FaultName[] = [
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

const modelWithFaults = /^mock(?:-[a-z0-9.-]+)?:(.*)$/is;

/** Source of a text with faults, for its error. */
type FaultSource = 'base_url' | 'x-mock-faults' | 'model';

/**
 * Parses `latency_ms=200,status=503` (also separated by `&`, as in a base URL's query). Throws a 400 with the known
 * faults for an unknown one, and with the allowed values for a value out of bounds.
 */
export function parseFaults(text: string, source: FaultSource): Faults {
  const found: Record<string, number | string | true> = {};
  for (const part of text.split(/[&,]/)) {
    const [word = '', value = ''] = splitOnce(part.trim(), '=');
    if (word === '' && value === '') continue;
    if (!Object.hasOwn(faultWords, word)) {
      const known = Object.keys(faultWords).join(', ');
      throw refused(source, `knows no fault \`${word.slice(0, 60)}\`. Known: ${known}.`);
    }
    found[word] = readValue(word as FaultName, value, source);
  }
  return found;
}

/** The faults in a model's name: the part after the first colon of `mock:…` or `mock-anything:…`. */
export function faultsInModel(model: string): string {
  return modelWithFaults.exec(model)?.[1] ?? '';
}

/** The faults without those that make a request fail. */
export function withoutFailures(faults: Faults): Faults {
  const kept: Record<string, unknown> = { ...faults };
  for (const word of failureWords) delete kept[word];
  return kept;
}

/** True when a fault makes the request fail. */
export function hasFailure(faults: Faults): boolean {
  return failureWords.some((word) => word !== 'retry_after' && faults[word] !== undefined);
}

function readValue(word: FaultName, value: string, source: FaultSource): number | string | true {
  const rule = faultWords[word];
  const given = `\`${word}=${value.slice(0, 60)}\``;
  switch (rule.kind) {
    case 'flag':
      if (value === '' || value === '1' || value === 'true') return true;
      throw refused(source, `cannot use ${given}: write \`${word}\` alone.`);
    case 'choice':
      if (rule.values.some((allowed) => allowed === value)) return value;
      throw refused(source, `cannot use ${given}: allowed are ${rule.values.join(', ')}.`);
    case 'share': {
      const share = /^(\d|\d?\.\d{1,9}|\d\.)$/.test(value) ? Number(value) : NaN;
      if (share >= 0 && share <= 1) return share;
      throw refused(source, `cannot use ${given}: a number from 0 to 1 is needed.`);
    }
    case 'integer': {
      const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
      if (number >= rule.minimum && number <= rule.maximum) return number;
      throw refused(
        source,
        `cannot use ${given}: an integer from ${rule.minimum} to ${rule.maximum} is needed.`,
      );
    }
  }
}

function refused(source: FaultSource, sentence: string): MockProblem {
  const place = {
    base_url: "the provider's base_url",
    'x-mock-faults': 'header x-mock-faults',
    model: "the model's name",
  }[source];
  return new MockProblem(400, `The mock provider, told by ${place}, ${sentence}`, {
    param: source,
    code: 'unknown_fault',
  });
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
