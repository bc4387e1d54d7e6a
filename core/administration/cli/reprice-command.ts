import type { RepriceCommand } from './command-arguments.ts';
import { inColumns } from './in-columns.ts';
import type { CostTools } from './reconcile-command.ts';

const dayMs = 86_400_000;
const usualDays = 30;

interface UnpricedModel {
  readonly service: string;
  readonly model: string;
  readonly first: string;
  readonly last: string;
  readonly requests: number;
  readonly tokens: number;
  /** The name that the price data has for it now. */
  readonly known: string | null;
}

/** Runs `weir reprice --list` and resolves to its exit code: 0, or 1 when the store cannot be read. */
export async function runRepriceCommand(command: RepriceCommand, tools: CostTools): Promise<number> {
  try {
    const today = Math.floor(tools.clock.now() / dayMs) * dayMs;
    const to = command.to === undefined ? today : Date.parse(command.to);
    const from = command.from === undefined ? to - (usualDays - 1) * dayMs : Date.parse(command.from);
    const days = { from: dayText(from), to: dayText(to) };
    if (from > to) throw new Error(`The days end (${days.to}) before they begin (${days.from}).`);
    return await tools.atCosts(command, async ({ analytics, nameModel }) => {
      const found = new Map<string, UnpricedModel>();
      for (const cost of await analytics.costsByDay({ window: { from, to: to + dayMs } })) {
        if (cost.unpriced === 0) continue;
        const { day, service, model } = cost;
        const key = `${service}\n${model}`;
        const before = found.get(key);
        found.set(key, {
          ...{ service, model, first: before?.first ?? day, last: day },
          requests: (before?.requests ?? 0) + cost.unpriced,
          tokens: (before?.tokens ?? 0) + cost.unpricedTokens,
          known: nameModel(service, model) ?? null,
        });
      }
      const models = [...found.values()].sort((one, other) => other.tokens - one.tokens);
      tools.print(command.json ? JSON.stringify({ ...days, models }, null, 2) : listText(models, days));
      return 0;
    });
  } catch (error) {
    tools.complain(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

function dayText(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function listText(
  models: readonly UnpricedModel[],
  { from, to }: { readonly from: string; readonly to: string },
): string {
  if (models.length === 0) return `Every request from ${from} to ${to} (UTC) that used tokens has a price.`;
  const titles = ['provider', 'model', 'first', 'last', 'requests', 'tokens', 'in the price data now'];
  const rows = models.map(({ service, model, first, last, requests, tokens, known }) => [
    ...[service, model === '' ? '(no model)' : model, first, last, String(requests), String(tokens)],
    known ?? '-',
  ]);
  return inColumns([titles, ...rows]).join('\n');
}
