import path from 'node:path';
import { formatProblem } from '../../config/problem.ts';
import type { Analytics, RecordedCost } from '../../ports/analytics.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Prices } from '../../ports/prices.ts';
import { shownUnits } from '../../ports/budgets.ts';
import type { BilledFile } from '../costs/billed-json.ts';
import type { BudgetComparison } from '../costs/compare-budgets.ts';
import { exactText, fixedText, percentText, type ExactAmount, readAmount } from '../costs/exact-amount.ts';
import { FileMistake } from '../costs/file-mistake.ts';
import type { BilledCost, Biller } from '../costs/billed-costs.ts';
import { readBilled } from '../costs/read-billed.ts';
import type { RowPrices } from '../costs/row-prices.ts';
import type { ReconcileCommand, StorePlace } from './command-arguments.ts';
import { alignColumns } from './in-columns.ts';
import { messageOf } from '../../errors/gateway-error.ts';

/** Store and prices of a command about costs, while the store is open. */
export interface CostPlace {
  readonly analytics: Analytics;
  /** Name of a provider kind's model in the price data. */
  nameModel(provider: string, model: string): string | undefined;
  /** Prices of this version and of the configuration. */
  readonly prices: Prices;
}

/** `CostPlace` for commands that change the cost of request rows. */
export interface RowsPlace extends CostPlace {
  readonly pricedBy: RowPrices;
}

/** Outside dependencies of these commands. Everything rejects with an error whose message is for the operator. */
export interface CostTools {
  readonly clock: Pick<Clock, 'now'>;
  /** Opens the analytics store of the configuration, and closes it when `use` has settled. */
  atCosts(place: StorePlace, use: (place: CostPlace) => Promise<number>): Promise<number>;
  /** `atCosts` that also opens the resources store. */
  atRows(place: StorePlace, use: (place: RowsPlace) => Promise<number>): Promise<number>;
  /** Compares the counts of usage limits with the request rows. */
  compareBudgets(command: Budgets): Promise<BudgetComparison>;
  /** The signal aborts when the operator interrupts; a second interrupt ends the process at once. */
  untilInterrupted<T>(use: (stop: AbortSignal) => Promise<T>): Promise<T>;
  print(text: string): void;
  complain(text: string): void;
}

type Bills = Extract<ReconcileCommand, { readonly compares: 'bills' }>;
type Budgets = Extract<ReconcileCommand, { readonly compares: 'budgets' }>;

interface Days {
  /** `YYYY-MM-DD`, both included. */
  readonly from: string;
  readonly to: string;
}

const dayMs = 86_400_000;

const maxDays = 366;

/** Runs `weir reconcile`. Resolves to its exit code: 0 when both sides were compared, else 1. */
export async function runReconcileCommand(command: ReconcileCommand, tools: CostTools): Promise<number> {
  try {
    if (command.compares === 'budgets') {
      const comparison = await tools.compareBudgets(command);
      tools.print(command.json ? budgetsJson(comparison) : budgetsText(comparison, command));
      return 0;
    }
    const file = await billedOf(command);
    const days = daysOf(command, file);
    const billed = file.costs.filter(({ day }) => days.from <= day && day <= days.to);
    return await tools.atCosts(command, async ({ analytics, nameModel }) => {
      const window = { from: Date.parse(days.from), to: Date.parse(days.to) + dayMs };
      const recorded = await analytics.costsByDay({ window, services: [command.provider] });
      const comparison = compareCosts(command.provider, billed, recorded, (model) =>
        nameModel(command.provider, model),
      );
      const report = { command, days, file, comparison, leftOut: file.costs.length - billed.length };
      tools.print(command.json ? reportJson(report) : reportText(report));
      return 0;
    });
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

async function billedOf({ provider, file }: Bills): Promise<BilledFile> {
  try {
    return await readBilled(provider, path.resolve(file));
  } catch (error) {
    const { line, column } = error instanceof FileMistake ? error : { line: 0, column: 0 };
    const says = messageOf(error);
    throw new Error(formatProblem({ file, line, column, path: '', message: says }), { cause: error });
  }
}

function daysOf({ from, to, file }: Bills, { costs }: BilledFile): Days {
  const days = costs.map(({ day }) => day).sort();
  const [first, last] = [from ?? days[0], to ?? days.at(-1)];
  if (first === undefined || last === undefined)
    throw new Error(`${file}: no costs of this provider. Name the days (--from, --to), or another file.`);
  if (first > last) throw new Error(`The days end (${last}) before they begin (${first}).`);
  if (Date.parse(last) - Date.parse(first) >= maxDays * dayMs)
    throw new Error(`From ${first} to ${last} are more than ${maxDays} days. Name fewer (--from, --to).`);
  return { from: first, to: last };
}

interface Report {
  readonly command: Bills;
  readonly days: Days;
  readonly file: BilledFile;
  readonly comparison: CostComparison;
  /** Billed amounts outside these days. */
  readonly leftOut: number;
}

function budgetsText({ compared, differences, leftOut }: BudgetComparison, { isDryRun }: Budgets): string {
  const rows = differences.map((one) => {
    const said = isDryRun ? '' : one.isCorrected ? 'corrected' : 'changed meanwhile';
    const shown = (amount: number): string => String(shownUnits(amount, one.unit));
    return [one.key, one.unit, shown(one.counted), shown(one.recorded), said];
  });
  const titles = ['usage limit', 'unit', 'counted', 'recorded', ''];
  return [
    `${compared} usage limits compared with the rows of requests; ${differences.length} have counted less.`,
    ...(rows.length === 0 ? [] : ['', ...alignColumns([titles, ...rows])]),
    ...(leftOut.size === 0 ? [] : ['', 'Left out:']),
    ...[...leftOut].map(([reason, count]) => `  ${count} ${reason}`),
  ].join('\n');
}

function budgetsJson({ compared, differences, leftOut }: BudgetComparison): string {
  const content = {
    compared,
    differences: differences.map(({ key, organisationId, unit, counted, recorded, isCorrected }) => ({
      ...{ key, organisation_id: organisationId, unit },
      ...{
        counted: shownUnits(counted, unit),
        recorded: shownUnits(recorded, unit),
        is_corrected: isCorrected,
      },
    })),
    left_out: Object.fromEntries(leftOut),
  };
  return JSON.stringify(content, null, 2);
}

function difference({ billed = 0n, recorded = 0n }: Pick<ComparedCost, 'billed' | 'recorded'>): ExactAmount {
  return billed - recorded;
}

interface Total {
  readonly billed: ExactAmount;
  readonly recorded: ExactAmount;
  readonly requests: number;
  readonly unpriced: number;
}

function totalOf(lines: readonly ComparedCost[]): Total {
  return {
    billed: lines.reduce((sum, { billed = 0n }) => sum + billed, 0n),
    recorded: lines.reduce((sum, { recorded = 0n }) => sum + recorded, 0n),
    requests: lines.reduce((sum, { requests }) => sum + requests, 0),
    unpriced: lines.reduce((sum, { unpriced }) => sum + unpriced, 0),
  };
}

const places = 6;

const titles = ['day', 'model', 'billed', 'recorded', 'difference', '%', 'requests', 'unpriced', ''];

function reportText({ command, days, file, comparison, leftOut }: Report): string {
  const { lines, unmatched } = comparison;
  const shown = (amount: ExactAmount | undefined): string =>
    amount === undefined ? '-' : fixedText(amount, places);
  const row = (day: string, model: string, line: Omit<ComparedCost, 'day' | 'model'>): string[] => [
    ...[day, model, shown(line.billed), shown(line.recorded), shown(difference(line))],
    percentText(difference(line), line.billed ?? 0n) ?? '-',
    ...[String(line.requests), String(line.unpriced), sideText(line)],
  ];
  const total = totalOf(lines);
  return [
    `${command.provider}, ${days.from} to ${days.to} (UTC), US dollars; difference = billed - recorded`,
    '',
    ...alignColumns([
      titles,
      ...lines.map((line) => row(line.day, line.model, line)),
      row('total', '', total),
    ]),
    ...(unmatched.length === 0 ? [] : ['', 'Billed under names that no recorded model has:']),
    ...unmatched.map(({ name, amount }) => `  ${JSON.stringify(name)}: ${shown(amount)}`),
    ...(total.unpriced === 0
      ? []
      : ['', `${total.unpriced} requests have no price and count as 0 here: weir reprice --help`]),
    ...(leftOut === 0 ? [] : ['', `${leftOut} billed amounts of other days are left out.`]),
    ...(file.isCut
      ? ['', 'The file ends before the last page of the provider: fetch the other pages too.']
      : []),
  ].join('\n');
}

function sideText({ billed, recorded }: Pick<ComparedCost, 'billed' | 'recorded'>): string {
  if (billed === undefined) return 'not billed';
  return recorded === undefined ? 'not recorded' : '';
}

/** The same for programs; amounts are texts with all their digits. */
function reportJson({ command, days, file, comparison, leftOut }: Report): string {
  const shown = (amount: ExactAmount | undefined): string | null =>
    amount === undefined ? null : exactText(amount);
  const amounts = (line: Omit<ComparedCost, 'day' | 'model'>) => ({
    billed: shown(line.billed),
    recorded: shown(line.recorded),
    difference: exactText(difference(line)),
    percent: percentText(difference(line), line.billed ?? 0n) ?? null,
    requests: line.requests,
    unpriced: line.unpriced,
  });
  const { lines, unmatched } = comparison;
  const content = {
    provider: command.provider,
    from: days.from,
    to: days.to,
    currency: 'USD',
    days: lines.map((line) => ({ day: line.day, model: line.model, ...amounts(line) })),
    total: amounts(totalOf(lines)),
    unmatched: unmatched.map(({ name, amount }) => ({ name, billed: exactText(amount) })),
    left_out: leftOut,
    is_cut: file.isCut,
  };
  return JSON.stringify(content, null, 2);
}

/** Billed and recorded cost of one model on one day. */
interface ComparedCost {
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
interface CostComparison {
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
