import type { RecordedCost } from '../../ports/analytics.ts';
import type { BilledCost, Biller } from './billed-costs.ts';
import { readAmount, type ExactAmount } from './exact-amount.ts';

/** Billed and recorded cost of one model on one day. */
export interface ComparedCost {
  readonly day: string;
  /** The recorded name where there is one. */
  readonly model: string;
  /** Undefined: only the other side has it. */
  readonly billed: ExactAmount | undefined;
  readonly recorded: ExactAmount | undefined;
  readonly requests: number;
  readonly unpriced: number;
}

/** Both sides of some days. */
export interface CostComparison {
  /** In the order of days, then of names. */
  readonly lines: readonly ComparedCost[];
  /** Amounts that the provider bills under names that no recorded model has. */
  readonly unmatched: readonly { readonly name: string; readonly amount: ExactAmount }[];
}

/** Finds the name that the price data has for a model; undefined where it has none. */
type NameModel = (model: string) => string | undefined;

interface Line {
  billed: ExactAmount | undefined;
  recorded: ExactAmount | undefined;
  requests: number;
  unpriced: number;
}

/** Compares a provider's billed costs with the recorded ones, by day and model. */
export function compareCosts(
  biller: Biller,
  billed: readonly BilledCost[],
  recorded: readonly RecordedCost[],
  nameModel: NameModel,
): CostComparison {
  const names = new ModelNames(biller, nameModel);
  for (const { model } of recorded) names.record(model);
  const lines = new Map<string, Line>();
  const lineOf = (day: string, key: string): Line => {
    const place = `${day}\n${key}`;
    let line = lines.get(place);
    if (line === undefined)
      lines.set(place, (line = { billed: undefined, recorded: undefined, requests: 0, unpriced: 0 }));
    return line;
  };
  for (const { day, model, cost, requests, unpriced } of recorded) {
    const line = lineOf(day, names.keyOf(model));
    line.recorded = (line.recorded ?? 0n) + (readAmount(cost) ?? 0n);
    line.requests += requests;
    line.unpriced += unpriced;
  }
  const unmatched = new Map<string, ExactAmount>();
  for (const { day, name, amount } of billed) {
    const key = names.keyOf(name);
    const line = lineOf(day, key);
    line.billed = (line.billed ?? 0n) + amount;
    if (!names.isRecorded(key)) unmatched.set(name, (unmatched.get(name) ?? 0n) + amount);
    names.label(key, name);
  }
  const sorted = [...lines].sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    lines: sorted.map(([place, line]) => {
      const [day = '', key = ''] = place.split('\n');
      return { day, model: names.labelOf(key), ...line };
    }),
    unmatched: [...unmatched].map(([name, amount]) => ({ name, amount })),
  };
}

/**
 * Finds names of the same model. OpenAI bills under the names in its API's answers, and snapshots may differ in price:
 * names are the same where the price data says so. Anthropic and Bedrock bill under display names ("Claude Sonnet 4",
 * `NovaLite`): names are the same where their words are, apart from vendor, region, date and edition.
 */
class ModelNames {
  readonly #byWords: boolean;
  readonly #nameModel: NameModel;
  readonly #keys = new Map<string, string>();
  readonly #labels = new Map<string, string>();
  readonly #recorded = new Set<string>();

  constructor(biller: Biller, nameModel: NameModel) {
    this.#byWords = biller !== 'openai';
    this.#nameModel = nameModel;
  }

  record(model: string): void {
    const key = this.keyOf(model);
    this.#recorded.add(key);
    this.label(key, model);
  }

  keyOf(name: string): string {
    let key = this.#keys.get(name);
    if (key === undefined) {
      const known = this.#nameModel(name) ?? name;
      key = this.#byWords ? wordsOf(known) || name : known.toLowerCase();
      this.#keys.set(name, key);
    }
    return key;
  }

  isRecorded(key: string): boolean {
    return this.#recorded.has(key);
  }

  label(key: string, name: string): void {
    if (!this.#labels.has(key)) this.#labels.set(key, name === '' ? '(no model)' : name);
  }

  labelOf(key: string): string {
    return this.#labels.get(key) ?? key;
  }
}

const edition = /(^|[-. ])v\d+(?::\w+)*$/;
const date = /^\d{8}$/;
/** Vendors, regions of inference profiles, and words that only one of both names has; `0` of "4.0". */
const idle = new Set(
  'anthropic amazon meta mistral cohere ai21 deepseek regional global us eu apac au ca jp gov instruct 0'.split(
    ' ',
  ),
);

/** The words of a model's name in one order: `claude-3-5-sonnet-20241022` and "Claude 3.5 Sonnet" have the same. */
function wordsOf(name: string): string {
  const plain = name
    .replace(edition, '')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase();
  const words = plain.match(/[a-z]+|\d+/g) ?? [];
  const kept = new Set(words.filter((word) => !idle.has(word) && !date.test(word)));
  return [...(kept.size === 0 ? words : kept)].sort().join(' ');
}
