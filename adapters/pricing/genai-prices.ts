import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { Usage } from '../../core/dialects/usage.ts';
import type { Log } from '../../core/ports/log.ts';
import {
  type CostKind,
  costKinds,
  type CostPart,
  type DatedTokenPrice,
  type OwnPrice,
  type Price,
  type PricedModels,
  type Prices,
  type TokenRates,
} from '../../core/ports/prices.ts';
import {
  type ExactPrice,
  type ModelPrices,
  modelPrices,
  type OwnModelPrices,
  type PriceList,
  type TokenPrice,
} from './model-prices.ts';
import { calcPrice } from '@pydantic/genai-prices';

/** Factors have a precision of six decimal places. */
const parts = 1_000_000;

/** A cost (a number of 10⁻¹² dollars, or a bigint of 10⁻¹⁸) times a factor, as an exact bigint. */
function multiplied(cost: number | bigint, factor: number): number | bigint {
  if (factor === 1) return cost;
  const exact = typeof cost === 'number' ? BigInt(cost) * 1_000_000n : cost;
  return (exact * BigInt(Math.round(factor * parts))) / BigInt(parts);
}

/**
 * Invented prices for every model of the built-in mock provider, so that a trial run shows money in its log:
 * 0.15 dollars per million input tokens, 0.075 when cached, 0.60 per million output tokens.
 */
const mockPrices: ModelPrices = [
  {
    applies: () => true,
    list: {
      input: modelPrices.plain(0.15),
      cacheRead: modelPrices.plain(0.075),
      cacheWrite: undefined,
      inputAudio: undefined,
      cacheAudioRead: undefined,
      output: modelPrices.plain(0.6),
      outputAudio: undefined,
      reasoning: undefined,
      request: 0n,
      requestPicos: 0,
    },
  },
];

const zeros = '000000000000';

/**
 * An amount as a decimal with exactly 12 decimal places: a number of 10⁻¹² dollars, or a bigint of 10⁻¹⁸ dollars,
 * rounded half up.
 */
export function formatAmount(amount: number | bigint): string {
  const digits = String(typeof amount === 'number' ? amount : rounded(amount));
  if (digits.length <= 12) return `0.${zeros.slice(digits.length)}${digits}`;
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

/** An amount of 10⁻¹⁸ dollars in 10⁻¹² dollars, rounded half up. */
function rounded(amount: bigint): bigint {
  return (amount + 500_000n) / 1_000_000n;
}

const nothing = '0.000000000000';
const maxRemembered = 10_000;
const maxNameLength = 256;

/** Service names of the gateway that differ from those of the price data. */
const priceProviders: Readonly<Record<string, string>> = {
  'azure-ai': 'azure',
  'azure-openai': 'azure',
  bedrock: 'aws',
  'fireworks-ai': 'fireworks',
  'mistral-ai': 'mistral',
  moonshot: 'moonshotai',
  'novita-ai': 'novita',
  'perplexity-ai': 'perplexity',
  'together-ai': 'together',
  'vertex-ai': 'google',
  voyage: 'voyageai',
  'workers-ai': 'cloudflare',
  'z-ai': 'zai',
  zhipu: 'zhipuai',
};

/** Prices that can change while in use. */
interface ChangingPrices extends Prices {
  /** Applies the prices of the configuration. */
  use(own: readonly OwnPrice[]): void;
  /** Notes new price data; its prices carry the edition. */
  dataChanged(edition: string): void;
}

/**
 * Prices from the data of @pydantic/genai-prices, summed in whole numbers: no rounding before the twelfth digit.
 *
 * A provider is matched by its exact name only, so that a self-hosted service never gets a public price. Models are
 * matched by the data's own rules and cached (10,000 names). `own` are the prices of the configuration.
 */
export function createPrices({
  log,
  own = [],
}: {
  readonly log: Log;
  readonly own?: readonly OwnPrice[];
}): ChangingPrices {
  let version = packageVersion();
  let unpriced: Price = { cost: nothing, status: 'unpriced', version };
  let none: Price = { cost: nothing, status: 'none', version };
  let current = own;
  let find = rememberedPrices(log, own);
  const lists = new WeakMap<DatedTokenPrice, PriceList>();
  const knownOf = (provider: string | PricedModels, model: string): KnownModel | undefined =>
    typeof provider === 'string' ? find(provider, model) : find(provider.service, provider.model || model);
  const ofIntegration = ({ own }: PricedModels, at: number): PriceList | undefined => {
    const price = own?.findLast(({ from }) => from === undefined || at >= from);
    if (price === undefined) return undefined;
    let list = lists.get(price);
    if (list === undefined)
      lists.set(price, (list = modelPrices.ofIntegration(price.requestToken, price.responseToken)));
    return list;
  };
  const chosen = (provider: string | PricedModels, model: string, at: number): ChosenPrices => {
    const isPlain = typeof provider === 'string';
    const said = isPlain ? undefined : ofIntegration(provider, at);
    const known = said === undefined ? knownOf(provider, model) : undefined;
    return {
      list: said ?? (known && pricesAt(known.prices, at)),
      factor: factorAt(known, at),
      multiplier: isPlain ? 1 : multiplierAt(provider, at),
    };
  };
  const priceBy = (usage: Usage, by: ChosenPrices): Price => {
    const { list } = by;
    const cost = list === undefined ? undefined : tokenCost(usage, list);
    if (cost === undefined) return usesTokens(usage) ? unpriced : none;
    return {
      cost: formatAmount(scaled(cost, by)),
      status: 'priced',
      version: list?.isOwn === true ? 'file' : version,
    };
  };
  return {
    price(usage: Usage | undefined, provider: string | PricedModels, model: string, at: number): Price {
      return usage === undefined ? none : priceBy(usage, chosen(provider, model, at));
    },
    parts(usage, provider, model, at) {
      if (usage === undefined) return undefined;
      const by = chosen(provider, model, at);
      const price = priceBy(usage, by);
      if (by.list === undefined || price.status !== 'priced') return undefined;
      return { price, parts: costParts(usage, by.list, by) };
    },
    rates(provider, model, at) {
      const known = find(provider, model);
      const list = known && pricesAt(known.prices, at);
      return list && ratesOf(list, factorAt(known, at));
    },
    use(next) {
      if (next === current) return;
      current = next;
      find = rememberedPrices(log, current);
    },
    dataChanged(edition) {
      version = edition;
      unpriced = { ...unpriced, version };
      none = { ...none, version };
      find = rememberedPrices(log, current);
    },
  };
}

/** Prices of a request, and the factors on them. */
interface ChosenPrices {
  readonly list: PriceList | undefined;
  /** Of the configuration; 1 for none. */
  readonly factor: number;
  /** Of the integration; 1 for none. */
  readonly multiplier: number;
}

function scaled(amount: number | bigint, by: Omit<ChosenPrices, 'list'>): number | bigint {
  return multiplied(multiplied(amount, by.factor), by.multiplier);
}

/** The factor of the integration in effect at `at`. */
function multiplierAt({ multiplier, laterMultipliers: later }: PricedModels, at: number): number {
  return later?.findLast(({ from }) => at >= from)?.factor ?? multiplier;
}

/** The factor of the configuration in effect at `at`; 1 for none. */
function factorAt(known: KnownModel | undefined, at: number): number {
  if (known === undefined || known.factors.length === 0) return 1;
  return known.factors.findLast(({ from }) => at >= from)?.factor ?? 1;
}

function ratesOf(list: PriceList, factor: number): TokenRates {
  const of = (price: ExactPrice): number => dollars(BigInt(multiplied(price, factor)));
  const ofToken = (price: TokenPrice | undefined) => (price === undefined ? undefined : of(price.base));
  return {
    input: ofToken(list.input),
    output: ofToken(list.output),
    cacheRead: ofToken(list.cacheRead),
    cacheWrite: ofToken(list.cacheWrite),
    inputAudio: ofToken(list.inputAudio),
    outputAudio: ofToken(list.outputAudio),
    reasoning: ofToken(list.reasoning),
    request: of(list.request),
  };
}

function dollars(price: ExactPrice): number {
  // Converted through its digits: a division would add floating-point noise.
  return Number(`${price}e-18`);
}

/** Prices of a model: the configuration's after those of the data, so that they take precedence. */
type KnownModel = OwnModelPrices;

function rememberedPrices(
  log: Log,
  own: readonly OwnPrice[],
): (provider: string, model: string) => KnownModel | undefined {
  const findOwn = modelPrices.ownFinder(own);
  const remembered = new Map<string, KnownModel | null>();
  return (provider, model) => {
    const key = `${provider}\n${model}`;
    const known = remembered.get(key);
    if (known !== undefined) return known ?? undefined;
    // A caller chooses the model's name: it must not fill the memory or slow down the matching rules.
    if (key.length > maxNameLength) return undefined;
    const data = lookUp(log, provider, model) ?? [];
    const said = findOwn(provider, model);
    const prices = [...data, ...(said?.prices ?? [])];
    const found = prices.length === 0 ? null : { prices, factors: said?.factors ?? [] };
    if (remembered.size >= maxRemembered) {
      for (const oldest of remembered.keys()) {
        remembered.delete(oldest);
        break;
      }
    }
    remembered.set(key, found);
    return found ?? undefined;
  };
}

/**
 * Name of a model in the price data for a kind of provider: its dated snapshots share the name when they share the
 * price. Undefined for unknown models.
 */
export function pricedModelName(provider: string, model: string): string | undefined {
  return model.length > maxNameLength ? undefined : findModelName(priceName(provider), model);
}

/** Name of a kind of provider in the price data. */
function priceName(provider: string): string {
  return (Object.hasOwn(priceProviders, provider) ? priceProviders[provider] : undefined) ?? provider;
}

function lookUp(log: Log, provider: string, model: string): ModelPrices | undefined {
  if (provider === 'mock') return mockPrices;
  try {
    const prices = modelPrices.find(priceName(provider), model);
    if (prices === undefined) log.debug('no price is known for this model', { provider, model });
    return prices;
  } catch (error) {
    log.warn('the price data of this model cannot be used; its requests are unpriced', {
      provider,
      model,
      error,
    });
    return undefined;
  }
}

/** The package exports no version; its package.json is above its entry. */
function packageVersion(): string {
  const entry = createRequire(import.meta.url).resolve('@pydantic/genai-prices');
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../package.json', pathToFileURL(entry)), 'utf8'),
  );
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest && manifest.version;
  if (typeof version !== 'string') throw new Error('@pydantic/genai-prices has no version; install it again');
  return version;
}

/**
 * Cost of a usage: a safe integer of 10⁻¹² dollars, or, when that is not exact, a bigint of 10⁻¹⁸ dollars. Undefined
 * when tokens were used in a direction without a price.
 *
 * Each token is charged once, at its most specific price: cached input before input, reasoning before output. Details
 * that exceed their total are cut to it.
 */
export function tokenCost(usage: Usage, prices: PriceList): number | bigint | undefined {
  const input = count(usage.promptTokens);
  const output = count(usage.completionTokens);
  if (input + output === 0 && count(usage.totalTokens) > 0) return undefined;
  if (input > 0 && prices.input === undefined) return undefined;
  if (output > 0 && prices.output === undefined) return undefined;
  const fast = new PicoTally();
  chargeAll(fast, usage, prices);
  if (Number.isSafeInteger(fast.sum)) return fast.sum;
  const exact = new ExactTally();
  chargeAll(exact, usage, prices);
  return exact.sum;
}

/** Adds up amounts. */
interface Tally {
  add(count: number, price: ExactPrice, picos: number, kind: CostKind): void;
}

/**
 * Uses doubles, several times as fast as bigints: exact while every price is a multiple of 10⁻¹² dollars and the sum is
 * a safe integer. Any other price makes the sum NaN.
 */
class PicoTally implements Tally {
  sum = 0;

  add(count: number, _price: ExactPrice, picos: number): void {
    this.sum += count * picos;
  }
}

class ExactTally implements Tally {
  sum = 0n;

  add(count: number, price: ExactPrice): void {
    this.sum += BigInt(count) * price;
  }
}

/** Notes amounts one by one. */
class PartsTally implements Tally {
  readonly charged: { readonly kind: CostKind; readonly count: number; readonly price: ExactPrice }[] = [];

  add(count: number, price: ExactPrice, _picos: number, kind: CostKind): void {
    if (kind !== 'request' || price > 0n) this.charged.push({ kind, count, price });
  }
}

/**
 * Parts of the cost that `tokenCost` and `scaled` give. Each sum of the first parts is rounded, and not each part: so they add
 * up to the whole, and none is further from its own amount than one unit of the last digit.
 */
function costParts(usage: Usage, list: PriceList, by: Omit<ChosenPrices, 'list'>): CostPart[] {
  const tally = new PartsTally();
  chargeAll(tally, usage, list);
  const order = (kind: CostKind): number => costKinds.indexOf(kind);
  let sum = 0n;
  let told = 0n;
  return tally.charged
    .sort((one, other) => order(one.kind) - order(other.kind))
    .map(({ kind, count, price }) => {
      sum += BigInt(count) * price;
      const upTo = rounded(BigInt(scaled(sum, by)));
      const cost = formatAmount((upTo - told) * 1_000_000n);
      told = upTo;
      if (kind === 'request') return { kind, tokens: 0, perMillion: undefined, cost };
      return { kind, tokens: count, perMillion: Number(`${scaled(price, by)}e-12`), cost };
    });
}

function chargeAll(tally: Tally, usage: Usage, prices: PriceList): void {
  const input = count(usage.promptTokens);
  tally.add(1, prices.request, prices.requestPicos, 'request');
  chargeInput(tally, usage, prices, input);
  chargeOutput(tally, usage, prices, input);
}

/** True when any token was used. */
function usesTokens(usage: Usage): boolean {
  return count(usage.promptTokens) + count(usage.completionTokens) + count(usage.totalTokens) > 0;
}

function chargeInput(tally: Tally, usage: Usage, prices: PriceList, input: number): void {
  const share = shares(input);
  const audio = prices.inputAudio === undefined ? 0 : Math.min(count(usage.inputAudioTokens), input);
  const cached = prices.cacheRead === undefined ? 0 : Math.min(count(usage.cachedTokens), input);
  const written = prices.cacheWrite === undefined ? 0 : count(usage.cacheWriteTokens);
  // An excess over the input was counted twice: audio from the cache.
  const cachedAudio = Math.min(Math.max(0, audio + cached + written - input), audio, cached);
  const cacheAudioRead = prices.cacheAudioRead ?? prices.cacheRead;
  charge(tally, 'cached_input_audio', share(cachedAudio), cacheAudioRead, input);
  charge(tally, 'cached_input', share(cached - cachedAudio), prices.cacheRead, input);
  charge(tally, 'cache_write', share(written), prices.cacheWrite, input);
  charge(tally, 'input_audio', share(audio - cachedAudio), prices.inputAudio, input);
  charge(tally, 'input', share(input), prices.input, input);
}

/** `input` is the size of the whole input, which selects the tier. */
function chargeOutput(tally: Tally, usage: Usage, prices: PriceList, input: number): void {
  const output = count(usage.completionTokens);
  const share = shares(output);
  const audio = prices.outputAudio === undefined ? 0 : count(usage.outputAudioTokens);
  const reasoning = prices.reasoning === undefined ? 0 : count(usage.reasoningTokens);
  charge(tally, 'output_audio', share(audio), prices.outputAudio, input);
  charge(tally, 'reasoning', share(reasoning), prices.reasoning, input);
  charge(tally, 'output', share(output), prices.output, input);
}

/** Allocates parts of `whole`, never more than the remainder. */
function shares(whole: number): (wanted: number) => number {
  let left = whole;
  return (wanted) => {
    const given = Math.min(wanted, left);
    left -= given;
    return given;
  };
}

/** `context` is the size of the whole input, which selects the tier. */
function charge(
  tally: Tally,
  kind: CostKind,
  tokens: number,
  price: TokenPrice | undefined,
  context: number,
): void {
  if (tokens === 0 || price === undefined) return;
  let { base: rate, picos } = price;
  for (const tier of price.tiers) {
    if (context > tier.above) ({ price: rate, picos } = tier);
  }
  tally.add(tokens, rate, picos, kind);
}

/** Sanitises a provider's number: an integer, not negative, finite. */
function count(tokens: number): number {
  return tokens > 0 ? Math.min(Math.round(tokens), Number.MAX_SAFE_INTEGER) : 0;
}

/** Name of a model in the data of genai-prices, or undefined when it lists none. */
function findModelName(provider: string, model: string): string | undefined {
  const found = calcPrice({}, model, { providerId: provider });
  return found === null || found.provider.id !== provider ? undefined : found.model.id;
}

/** The list in effect at `at` (milliseconds since the epoch); undefined before the first one. */
function pricesAt(prices: ModelPrices, at: number): PriceList | undefined {
  for (let i = prices.length - 1; i >= 0; i -= 1) {
    const entry = prices[i];
    if (entry?.applies(at) === true) return entry.list;
  }
  return undefined;
}
