import { calcPrice, type ConditionalPrice, type ModelPrice } from '@pydantic/genai-prices';

/** A price as a whole number of 10⁻¹⁸ dollars per token, that is 10⁻¹² dollars per million tokens. */
export type ExactPrice = bigint;

const zeros = '000000000000';

/** Dollars per million tokens, exact to 12 digits after the point (which takes float noise out of the data). */
export function exactPrice(dollarsPerMillion: number): ExactPrice {
  if (!Number.isFinite(dollarsPerMillion) || dollarsPerMillion < 0) {
    throw new Error(`the price data holds a price that is none: ${dollarsPerMillion}`);
  }
  return BigInt(dollarsPerMillion.toFixed(12).replace('.', ''));
}

/** The same in 10⁻¹² dollars per token, where that is a whole safe number, else NaN. */
export function picosPerUnit(price: ExactPrice): number {
  const picos = price % 1_000_000n === 0n ? Number(price / 1_000_000n) : NaN;
  return Number.isSafeInteger(picos) ? picos : NaN;
}

/**
 * An amount as a decimal with exactly 12 digits after the point: a number of 10⁻¹² dollars, or a bigint of 10⁻¹⁸
 * dollars, rounded half up.
 */
export function formatAmount(amount: number | bigint): string {
  const digits = String(typeof amount === 'number' ? amount : (amount + 500_000n) / 1_000_000n);
  if (digits.length <= 12) return `0.${zeros.slice(digits.length)}${digits}`;
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

/**
 * What one kind of token costs, in 10⁻¹⁸ dollars a token; by the size of the whole input where prices are tiered.
 */
export interface TokenPrice {
  readonly base: ExactPrice;
  /** `base` in 10⁻¹² dollars, or NaN where that is no whole number. */
  readonly picos: number;
  /** Ascending; the last one whose `above` is less than the input tokens counts, for all tokens. */
  readonly tiers: readonly {
    readonly above: number;
    readonly price: ExactPrice;
    readonly picos: number;
  }[];
}

/** The prices of a model at one time. Undefined: not priced on its own. */
export interface PriceList {
  readonly input: TokenPrice | undefined;
  readonly cacheRead: TokenPrice | undefined;
  readonly cacheWrite: TokenPrice | undefined;
  readonly inputAudio: TokenPrice | undefined;
  readonly cacheAudioRead: TokenPrice | undefined;
  readonly output: TokenPrice | undefined;
  readonly outputAudio: TokenPrice | undefined;
  readonly reasoning: TokenPrice | undefined;
  /** For each request, in 10⁻¹⁸ dollars. */
  readonly request: ExactPrice;
  /** `request` in 10⁻¹² dollars, or NaN where that is no whole number. */
  readonly requestPicos: number;
  /** True for prices of the configuration. */
  readonly isOwn?: true;
}

/** The prices of a model: the last list whose `applies` holds. */
export type ModelPrices = readonly { readonly applies: (at: number) => boolean; readonly list: PriceList }[];

const always = (): boolean => true;
const dayMs = 86_400_000;

/**
 * The prices of a model in the data of genai-prices, or undefined when it lists none. `provider` is an id of that
 * data. Throws when the data says something that this version does not understand.
 */
export function findModelPrices(provider: string, model: string): ModelPrices | undefined {
  // An empty usage costs nothing; what is wanted is the model that the name is matched with.
  const found = calcPrice({}, model, { providerId: provider });
  if (found === null || found.provider.id !== provider) return undefined;
  const { id, prices } = found.model;
  const entries = Array.isArray(prices) ? prices : [{ prices }];
  const compiled = entries.map((entry: ConditionalPrice) => ({
    applies: applies(entry.constraint),
    list: priceList(entry.prices, id),
  }));
  // Whatever the first one's own condition is, it holds where no other does.
  return compiled.map((entry, index) => (index === 0 ? { ...entry, applies: always } : entry));
}

/** The name of a model in the data of genai-prices, or undefined when it lists none. */
export function findModelName(provider: string, model: string): string | undefined {
  const found = calcPrice({}, model, { providerId: provider });
  return found === null || found.provider.id !== provider ? undefined : found.model.id;
}

/** The list that applies at `at` (milliseconds since the epoch); undefined when there is none yet. */
export function pricesAt(prices: ModelPrices, at: number): PriceList | undefined {
  for (let i = prices.length - 1; i >= 0; i -= 1) {
    const entry = prices[i];
    if (entry?.applies(at) === true) return entry.list;
  }
  return undefined;
}

function priceList(prices: ModelPrice, model: string): PriceList {
  // The data writes an empty list both for what is free and for what it does not know; only a name tells.
  const free: ModelPrice = model.endsWith(':free') ? { input_mtok: 0, output_mtok: 0 } : {};
  const known = { ...free, ...prices };
  const request = typeof known.requests_kcount === 'number' ? exactPrice(known.requests_kcount) * 1_000n : 0n;
  return {
    input: tokenPrice(known.input_mtok),
    cacheRead: tokenPrice(known.cache_read_mtok),
    cacheWrite: tokenPrice(known.cache_write_mtok),
    inputAudio: tokenPrice(known.input_audio_mtok),
    cacheAudioRead: tokenPrice(known.cache_audio_read_mtok),
    output: tokenPrice(known.output_mtok),
    outputAudio: tokenPrice(known.output_audio_mtok),
    reasoning: tokenPrice(known.output_reasoning_mtok),
    // Dollars per thousand requests; 10³ of them are one of "per million".
    request,
    requestPicos: picosPerUnit(request),
  };
}

function tokenPrice(price: ModelPrice[string]): TokenPrice | undefined {
  if (price === undefined) return undefined;
  if (typeof price === 'number') return plainPrice(price);
  const tiers = price.tiers.map((tier) => {
    const { base, picos } = plainPrice(tier.price);
    return { above: tier.start, price: base, picos };
  });
  return { ...plainPrice(price.base), tiers: tiers.sort((a, b) => a.above - b.above) };
}

/** The same for every size of input. `dollars` per million tokens. */
export function plainPrice(dollars: number): TokenPrice {
  const base = exactPrice(dollars);
  return { base, picos: picosPerUnit(base), tiers: [] };
}

function applies(constraint: ConditionalPrice['constraint']): (at: number) => boolean {
  if (constraint === undefined) return always;
  if (constraint.type === 'start_date') {
    const from = Date.parse(constraint.start_date);
    return (at) => at >= from;
  }
  const start = timeOfDay(constraint.start_time);
  const end = timeOfDay(constraint.end_time);
  return (at) => {
    const time = ((at % dayMs) + dayMs) % dayMs;
    return end < start ? time >= start || time < end : time >= start && time < end;
  };
}

/** Milliseconds since midnight UTC of `HH:MM:SS` with `Z` or an offset. */
function timeOfDay(text: string): number {
  const time = Date.parse(`1970-01-01T${text}`);
  if (Number.isNaN(time)) throw new Error(`the price data holds a time of day that is none: ${text}`);
  return ((time % dayMs) + dayMs) % dayMs;
}
