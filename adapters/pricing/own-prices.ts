import type { OwnPrice } from '../../core/ports/prices.ts';
import { exactPrice, type ModelPrices, picosPerUnit, plainPrice, type PriceList } from './model-prices.ts';

/** What the configuration says of one model: prices beside those of the price data, and factors on what holds. */
export interface OwnModelPrices {
  readonly prices: ModelPrices;
  readonly factors: readonly { readonly from: number; readonly factor: number }[];
}

interface Entry {
  readonly provider: string;
  readonly model: string;
  /** `model` is a beginning. */
  readonly isPrefix: boolean;
  readonly from: number;
  readonly list: PriceList | undefined;
  readonly factor: number;
}

/** Finds what the configuration says of a model, by kind of provider and name; undefined when it says nothing. */
export function ownPricesFinder(
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

/** Those that say it most exactly, the earliest first; of one moment, the last one of the file is the last one. */
function nearest(entries: readonly Entry[]): readonly Entry[] {
  const [closest] = [...entries].sort(byNearness);
  if (closest === undefined) return [];
  return entries.filter((entry) => byNearness(entry, closest) === 0).sort((a, b) => order(a.from, b.from));
}

/** A whole name before a beginning, a longer beginning before a shorter one, a kind of provider before all of them. */
function byNearness(a: Entry, b: Entry): number {
  if (a.isPrefix !== b.isPrefix) return a.isPrefix ? 1 : -1;
  if (a.model.length !== b.model.length) return b.model.length - a.model.length;
  return Number(a.provider === '*') - Number(b.provider === '*');
}

function order(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
