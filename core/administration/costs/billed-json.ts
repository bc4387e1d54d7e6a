import { parse } from 'lossless-json';
import { createSource } from '../../config/config-source.ts';
import { parseYaml } from '../../config/parse-yaml.ts';
import { quoted } from '../../base/did-you-mean.ts';
import { type BilledCost, type Biller, dayOf, modelOfLineItem } from './billed-costs.ts';
import { readAmount, type ExactAmount } from './exact-amount.ts';
import { FileMistake } from './file-mistake.ts';
import { messageOf } from '../../errors/gateway-error.ts';

/** Names and readers of the members in a provider's answer about costs. */
interface Shape {
  readonly start: string;
  readonly address: string;
  amount(result: Reader): ExactAmount;
  name(result: Reader): string;
}

const shapes: Readonly<Partial<Record<Biller, Shape>>> = {
  // https://platform.openai.com/docs/api-reference/usage/costs: dollars, as a number; `group_by=line_item`.
  openai: {
    start: 'start_time',
    address: 'GET /v1/organization/costs?group_by=line_item',
    amount(result) {
      const amount = result.member('amount');
      amount.member('currency').expectDollars();
      return amount.member('value').amount();
    },
    name: (result) => modelOfLineItem(result.text('line_item') ?? '(no line item)'),
  },
  // https://platform.claude.com/docs/en/api/admin/cost_report: cents, as a text; `group_by[]=description`.
  anthropic: {
    start: 'starting_at',
    address: 'GET /v1/organizations/cost_report?group_by[]=description',
    amount(result) {
      result.member('currency').expectDollars();
      return result.member('amount').amount(2);
    },
    name: (result) =>
      result.text('model') || result.text('cost_type') || result.text('description') || '(no description)',
  },
};

/** Content of a provider's file. */
export interface BilledFile {
  readonly costs: readonly BilledCost[];
  /** The provider has more pages than the file. */
  readonly isCut: boolean;
}

/** Reads one page of a provider's answer about costs, or a list of pages. Throws a `FileMistake`. */
export function readBilledJson(biller: Biller, text: string): BilledFile {
  const shape = shapes[biller];
  if (shape === undefined)
    throw new FileMistake(
      { line: 1, column: 1 },
      'this is JSON; expected the CSV of an AWS Cost and Usage Report',
    );
  const root = new Reader(parsed(text), '', text);
  const pages = root.isList() ? root.items() : [root];
  const costs: BilledCost[] = [];
  for (const page of pages)
    for (const bucket of page.member('data', `a page of ${shape.address}`).items()) {
      const day = bucket.member(shape.start).day();
      for (const result of bucket.member('results').items())
        costs.push({ day, name: shape.name(result), amount: shape.amount(result) });
    }
  return { costs, isCut: pages.at(-1)?.isTrue('has_more') ?? false };
}

/** Numbers stay the text that they are. */
function parsed(text: string): unknown {
  try {
    return parse(text, null, { parseNumber: (digits) => digits, onDuplicateKey: ({ newValue }) => newValue });
  } catch (error) {
    const says = messageOf(error);
    const [, position] = /position (\d+)/.exec(says) ?? [];
    const before = text.slice(0, Number(position ?? 0));
    const line = before.split('\n').length;
    const place = { line, column: before.length - before.lastIndexOf('\n') };
    throw new FileMistake(place, `this is no JSON: ${says.slice(0, 200)}`);
  }
}

/** A value of the file, and where it stands. */
class Reader {
  readonly #value: unknown;
  readonly #pointer: string;
  readonly #text: string;

  constructor(value: unknown, pointer: string, text: string) {
    this.#value = value;
    this.#pointer = pointer;
    this.#text = text;
  }

  isList(): boolean {
    return Array.isArray(this.#value);
  }

  items(): Reader[] {
    const value: unknown = this.#value;
    if (!Array.isArray(value)) throw this.#mistake('a list');
    return value.map((item: unknown, index) => new Reader(item, `${this.#pointer}/${index}`, this.#text));
  }

  member(name: string, whole = `an object with the member "${name}"`): Reader {
    const value = this.#member(name);
    if (value === undefined) throw this.#mistake(whole);
    return new Reader(value, `${this.#pointer}/${name}`, this.#text);
  }

  /** Undefined where the member is null or absent. */
  text(name: string): string | undefined {
    const value = this.#member(name) ?? undefined;
    if (value === undefined || typeof value === 'string') return value;
    throw this.member(name).#mistake('a text or null');
  }

  isTrue(name: string): boolean {
    return this.#member(name) === true;
  }

  expectDollars(): void {
    if (typeof this.#value !== 'string' || this.#value.toLowerCase() !== 'usd') throw this.#mistake('"usd"');
  }

  amount(shift = 0): ExactAmount {
    const amount = typeof this.#value === 'string' ? readAmount(this.#value, shift) : undefined;
    if (amount === undefined) throw this.#mistake('a decimal number');
    return amount;
  }

  day(): string {
    const day = typeof this.#value === 'string' ? dayOf(this.#value) : undefined;
    if (day === undefined)
      throw this.#mistake('a time like 2026-05-17T00:00:00Z, or seconds since the epoch');
    return day;
  }

  #member(name: string): unknown {
    const value: unknown = this.#value;
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    return (value as Readonly<Record<string, unknown>>)[name];
  }

  #mistake(expected: string): FileMistake {
    // Places are computed only for errors: JSON is YAML too.
    const { root } = parseYaml(this.#text, { path: '', name: '' }, 10_000_000);
    const place =
      root === undefined
        ? { line: 1, column: 1 }
        : createSource(root, { files: [], digest: '' }).locate(this.#pointer);
    const value: unknown = this.#value;
    const found = typeof value === 'string' ? quoted(value) : Array.isArray(value) ? 'a list' : typeof value;
    const name = this.#pointer === '' ? 'the file' : this.#pointer;
    return new FileMistake(place, `${name} is ${value === null ? 'null' : found}; expected ${expected}`);
  }
}
