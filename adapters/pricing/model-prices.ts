import { calcPrice, type ConditionalPrice, type ModelPrice } from '@pydantic/genai-prices';
import type { OwnPrice } from '../../core/ports/prices.ts';

/** Finds the prices of a model. */
export const modelPrices = {
  find: findModelPrices,
  plain: plainPrice,
  ownFinder: ownPricesFinder,
  ofIntegration: integrationPrices,
};

/** A price as a whole number of 10⁻¹⁸ dollars per token, that is 10⁻¹² dollars per million tokens. */
export type ExactPrice = bigint;

/** Dollars per million tokens, exact to 12 decimal places (which removes float noise from the data). */
export function exactPrice(dollarsPerMillion: number): ExactPrice {
  if (!Number.isFinite(dollarsPerMillion) || dollarsPerMillion < 0) {
    throw new Error(`the price data holds a price that is none: ${dollarsPerMillion}`);
  }
  return BigInt(dollarsPerMillion.toFixed(12).replace('.', ''));
}

/** The price in 10⁻¹² dollars per token when that is a safe integer, else NaN. */
function picosPerUnit(price: ExactPrice): number {
  const picos = price % 1_000_000n === 0n ? Number(price / 1_000_000n) : NaN;
  return Number.isSafeInteger(picos) ? picos : NaN;
}

/** Price of one kind of token, in 10⁻¹⁸ dollars per token; tiered by the size of the whole input. */
export interface TokenPrice {
  readonly base: ExactPrice;
  /** `base` in 10⁻¹² dollars, or NaN when that is not an integer. */
  readonly picos: number;
  /** Ascending; the last one whose `above` is less than the input tokens applies to all tokens. */
  readonly tiers: readonly {
    readonly above: number;
    readonly price: ExactPrice;
    readonly picos: number;
  }[];
}

/** The prices of a model at one time. Undefined: no separate price. */
export interface PriceList {
  readonly input: TokenPrice | undefined;
  readonly cacheRead: TokenPrice | undefined;
  readonly cacheWrite: TokenPrice | undefined;
  readonly inputAudio: TokenPrice | undefined;
  readonly cacheAudioRead: TokenPrice | undefined;
  readonly output: TokenPrice | undefined;
  readonly outputAudio: TokenPrice | undefined;
  readonly reasoning: TokenPrice | undefined;
  /** Price per request, in 10⁻¹⁸ dollars. */
  readonly request: ExactPrice;
  /** `request` in 10⁻¹² dollars, or NaN when that is not an integer. */
  readonly requestPicos: number;
  /** True for prices of the configuration. */
  readonly isOwn?: true;
}

/** The prices of a model: the last list whose `applies` holds. */
export type ModelPrices = readonly { readonly applies: (at: number) => boolean; readonly list: PriceList }[];

const always = (): boolean => true;
const dayMs = 86_400_000;

/**
 * The prices of a model in the data of genai-prices, or undefined when it lists none. `provider` is an id of that data.
 * Throws when this version does not support the data.
 */
function findModelPrices(provider: string, model: string): ModelPrices | undefined {
  // An empty usage costs nothing; the call only matches the name to a model.
  const found = calcPrice({}, model, { providerId: provider });
  if (found === null || found.provider.id !== provider) return undefined;
  const { id, prices } = found.model;
  const entries = Array.isArray(prices) ? prices : [{ prices }];
  const compiled = entries.map((entry: ConditionalPrice) => ({
    applies: applies(entry.constraint),
    list: priceList(entry.prices, id),
  }));
  // The first entry applies when no other does, regardless of its own condition.
  return compiled.map((entry, index) => (index === 0 ? { ...entry, applies: always } : entry));
}

function priceList(prices: ModelPrice, model: string): PriceList {
  // The data has an empty list both for free and for unknown prices; only the name distinguishes them.
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
    // Dollars per thousand requests; 10³ of them make one "per million".
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

/** One price for all input sizes. `dollars` per million tokens. */
function plainPrice(dollars: number): TokenPrice {
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

/** The configuration's data of one model: prices in addition to the price data, and factors. */
export interface OwnModelPrices {
  readonly prices: ModelPrices;
  readonly factors: readonly { readonly from: number; readonly factor: number }[];
}

interface Entry {
  readonly provider: string;
  readonly model: string;
  /** `model` is a prefix. */
  readonly isPrefix: boolean;
  readonly from: number;
  readonly list: PriceList | undefined;
  readonly factor: number;
}

/** Finds the configuration's data of a model, by kind of provider and name; undefined without any. */
function ownPricesFinder(
  own: readonly OwnPrice[],
): (provider: string, model: string) => OwnModelPrices | undefined {
  if (own.length === 0) return () => undefined;
  const entries = own.map(entryOf);
  return (provider, model) => {
    const about = entries.filter((entry) => matches(entry, provider, model));
    if (about.length === 0) return undefined;
    const prices = nearest(about.filter(({ list }) => list !== undefined));
    const factors = nearest(about.filter(({ list }) => list === undefined));
    return {
      prices: prices.map(({ from, list }) => ({ applies: (at) => at >= from, list: list as PriceList })),
      factors: factors.map(({ from, factor }) => ({ from, factor })),
    };
  };
}

function entryOf(said: OwnPrice): Entry {
  const { provider, model, from, factor } = said;
  const isPrefix = model.endsWith('*');
  return {
    provider,
    model: isPrefix ? model.slice(0, -1) : model,
    isPrefix,
    from: from === undefined ? -Infinity : Date.parse(from),
    list: factor === undefined ? listOf(said) : undefined,
    factor: factor ?? 1,
  };
}

function listOf(said: OwnPrice): PriceList {
  const of = (dollars: number | undefined) => (dollars === undefined ? undefined : plainPrice(dollars));
  const request = exactPrice(said.request ?? 0) * 1_000_000n;
  return {
    input: of(said.input),
    cacheRead: of(said.cache_read),
    cacheWrite: of(said.cache_write),
    inputAudio: of(said.input_audio),
    cacheAudioRead: of(said.cache_audio_read),
    output: of(said.output),
    outputAudio: of(said.output_audio),
    reasoning: of(said.reasoning),
    request,
    requestPicos: picosPerUnit(request),
    isOwn: true,
  };
}

function matches(entry: Entry, provider: string, model: string): boolean {
  if (entry.provider !== '*' && entry.provider !== provider) return false;
  return entry.isPrefix ? model.startsWith(entry.model) : model === entry.model;
}

/** The most specific entries, the earliest first; at the same time, the last one of the file is the last one. */
function nearest(entries: readonly Entry[]): readonly Entry[] {
  const [closest] = [...entries].sort(byNearness);
  if (closest === undefined) return [];
  return entries.filter((entry) => byNearness(entry, closest) === 0).sort((a, b) => order(a.from, b.from));
}

/** A whole name before a prefix, a longer prefix before a shorter one, a kind of provider before all kinds. */
function byNearness(a: Entry, b: Entry): number {
  if (a.isPrefix !== b.isPrefix) return a.isPrefix ? 1 : -1;
  if (a.model.length !== b.model.length) return b.model.length - a.model.length;
  return Number(a.provider === '*') - Number(b.provider === '*');
}

function order(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Price list of a model with only these prices: US dollars per request token and per response token. */
function integrationPrices(requestToken: number, responseToken: number): PriceList {
  return {
    input: perToken(requestToken),
    cacheRead: undefined,
    cacheWrite: undefined,
    inputAudio: undefined,
    cacheAudioRead: undefined,
    output: perToken(responseToken),
    outputAudio: undefined,
    reasoning: undefined,
    request: 0n,
    requestPicos: 0,
  };
}

function perToken(dollars: number): TokenPrice {
  const base = exactPrice(dollars * 1_000_000);
  return { base, picos: picosPerUnit(base), tiers: [] };
}
