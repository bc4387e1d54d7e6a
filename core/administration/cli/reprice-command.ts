import { exactText, fixedText } from '../costs/exact-amount.ts';
import { repriceRequests } from '../costs/reprice-requests.ts';
import type { RepriceCommand } from './command-arguments.ts';
import { alignColumns } from './in-columns.ts';
import type { CostPlace, CostTools, RowsPlace } from './reconcile-command.ts';
import { messageOf } from '../../errors/gateway-error.ts';

type RepriceReport = Awaited<ReturnType<typeof repriceRequests>>;

const dayMs = 86_400_000;
const defaultDays = 30;
const progressMs = 5000;
const places = 6;

interface UnpricedModel {
  readonly service: string;
  readonly model: string;
  readonly first: string;
  readonly last: string;
  readonly requests: number;
  readonly tokens: number;
  /** Its present name in the price data, or its own when the configuration prices it. */
  readonly known: string | null;
}

interface Days {
  readonly from: string;
  readonly to: string;
}

/**
 * Runs `weir reprice`. Resolves to its exit code: 0, or 1 when the store cannot be read or changed, or the work was
 * interrupted.
 */
export async function runRepriceCommand(command: RepriceCommand, tools: CostTools): Promise<number> {
  try {
    const today = Math.floor(tools.clock.now() / dayMs) * dayMs;
    const to = command.to === undefined ? today : Date.parse(command.to);
    const from = command.from === undefined ? to - (defaultDays - 1) * dayMs : Date.parse(command.from);
    const days = { from: dayText(from), to: dayText(to) };
    if (from > to) throw new Error(`The days end (${days.to}) before they begin (${days.from}).`);
    return await (command.action === 'list'
      ? tools.atCosts(command, (place) => list(command, days, place, tools))
      : tools.atRows(command, (place) => reprice(command, days, place, tools)));
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

function dayText(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function windowOf({ from, to }: Days) {
  return { from: Date.parse(from), to: Date.parse(to) + dayMs };
}

async function list(
  command: RepriceCommand,
  days: Days,
  { analytics, nameModel, prices }: CostPlace,
  tools: CostTools,
): Promise<number> {
  const found = new Map<string, UnpricedModel>();
  const services = command.provider === undefined ? undefined : [command.provider];
  const costs = await analytics.costsByDay({ window: windowOf(days), ...(services && { services }) });
  for (const cost of costs) {
    const { day, service, model } = cost;
    if (cost.unpriced === 0 || (command.model ?? model) !== model) continue;
    const key = `${service}\n${model}`;
    const before = found.get(key);
    const own = prices.rates(service, model, Date.parse(day)) === undefined ? null : model;
    found.set(key, {
      ...{ service, model, first: before?.first ?? day, last: day },
      requests: (before?.requests ?? 0) + cost.unpriced,
      tokens: (before?.tokens ?? 0) + cost.unpricedTokens,
      known: nameModel(service, model) ?? own ?? before?.known ?? null,
    });
  }
  const models = [...found.values()].sort((one, other) => other.tokens - one.tokens);
  tools.print(command.json ? JSON.stringify({ ...days, models }, null, 2) : listText(models, days));
  return 0;
}

function listText(models: readonly UnpricedModel[], { from, to }: Days): string {
  if (models.length === 0) return `Every request from ${from} to ${to} (UTC) that used tokens has a price.`;
  const titles = ['provider', 'model', 'first', 'last', 'requests', 'tokens', 'has a price now as'];
  const rows = models.map(({ service, model, first, last, requests, tokens, known }) => [
    ...[service, nameOf(model), first, last, String(requests), String(tokens)],
    known ?? '-',
  ]);
  return alignColumns([titles, ...rows]).join('\n');
}

function nameOf(model: string): string {
  return model === '' ? '(no model)' : model;
}

async function reprice(
  command: RepriceCommand,
  days: Days,
  { analytics, prices, pricedBy }: RowsPlace,
  tools: CostTools,
): Promise<number> {
  const { provider, model } = command;
  const dryRun = command.action === 'dry-run';
  const repricing = await analytics.repricing();
  let told = tools.clock.now();
  const report = await tools.untilInterrupted((stop) =>
    repriceRequests(
      { window: windowOf(days), provider, model, dryRun },
      {
        ...{ repricing, prices, pricedBy, stop },
        progress({ looked, priced, at }) {
          if (tools.clock.now() - told < progressMs) return;
          told = tools.clock.now();
          const verb = dryRun ? 'would have' : 'have';
          tools.complain(`${dayText(at)}: of ${looked} requests without a price ${priced} ${verb} one now`);
        },
      },
    ),
  );
  tools.print(command.json ? reportJson(report, days, dryRun) : reportText(report, days, dryRun));
  if (!report.isCut) return 0;
  tools.complain('Interrupted before the last day. Run the command again: it continues from there.');
  return 1;
}

function totalOf(models: RepriceReport['priced']) {
  return {
    requests: models.reduce((sum, { requests }) => sum + requests, 0),
    tokens: models.reduce((sum, { tokens }) => sum + tokens, 0),
    cost: models.reduce((sum, { cost }) => sum + cost, 0n),
  };
}

function reportText({ priced, unpriced, completed }: RepriceReport, days: Days, dryRun: boolean): string {
  const span = `from ${days.from} to ${days.to} (UTC)`;
  const total = totalOf(priced);
  const titles = ['provider', 'model', 'requests', 'tokens', 'US dollars'];
  const table = alignColumns([
    titles,
    ...priced.map(({ service, model, requests, tokens, cost }) => [
      ...[service, nameOf(model), String(requests), String(tokens), fixedText(cost, places)],
    ]),
    ['total', '', String(total.requests), String(total.tokens), fixedText(total.cost, places)],
  ]);
  const verb = dryRun ? 'would get' : 'have got';
  const left = unpriced.map(({ service, model, requests, tokens, reason }) => [
    ...[service, nameOf(model), String(requests), String(tokens), reason],
  ]);
  return [
    ...(completed ? ['The work of an interrupted earlier command is now complete.', ''] : []),
    ...(priced.length === 0
      ? [`No request ${span} ${dryRun ? 'would get' : 'has got'} a price.`]
      : [`${total.requests} requests ${span} ${verb} a price:`, '', ...table]),
    ...(left.length === 0
      ? []
      : ['', 'Without a price still:', '', ...alignColumns([[...titles.slice(0, 4), 'because'], ...left])]),
  ].join('\n');
}

/** The same for programs; amounts are texts with all their digits. */
function reportJson(
  { priced, unpriced, completed, isCut }: RepriceReport,
  days: Days,
  dryRun: boolean,
): string {
  const total = totalOf(priced);
  const content = {
    ...days,
    currency: 'USD',
    dry_run: dryRun,
    is_cut: isCut,
    completed_earlier: completed,
    priced: priced.map((model) => ({ ...model, cost: exactText(model.cost) })),
    total: { ...total, cost: exactText(total.cost) },
    unpriced: unpriced.map(({ service, model, requests, tokens, reason }) => ({
      service,
      model,
      requests,
      tokens,
      reason,
    })),
  };
  return JSON.stringify(content, null, 2);
}
