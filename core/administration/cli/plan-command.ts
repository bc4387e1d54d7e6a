import { formatProblem, type Problem } from '../../config/problem.ts';
import { messageOf } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import { type ChangeReport, compareRequests, type Sides } from '../changes/compare-requests.ts';
import type { RecordedRequest } from '../changes/recorded-request.ts';
import type { PlanCommand } from './change-arguments.ts';

/** Outside dependencies of `runPlanCommand`. */
export interface PlanTools {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** The newest recorded requests since a time, oldest first. Rejects with a sentence for the operator. */
  requests(command: PlanCommand, since: number): Promise<readonly RecordedRequest[]>;
  /**
   * Opens both configurations, and the saved records in force, for requests that are sent to nobody, and closes them when `use` has settled. Resolves to
   * the mistakes when one of them cannot be used.
   */
  atSides<T>(
    command: PlanCommand,
    requests: readonly RecordedRequest[],
    use: (sides: Sides) => Promise<T>,
  ): Promise<{ readonly result: T } | { readonly problems: readonly Problem[] }>;
  print(text: string): void;
  complain(text: string): void;
}

/** Exit code of a plan in which something changes. */
const changesCode = 3;
const progressMs = 5000;

/** Runs `weir plan`. Resolves to its exit code: 0 when nothing changes, 3 when something does, 1 when it cannot tell. */
export async function runPlanCommand(command: PlanCommand, tools: PlanTools): Promise<number> {
  try {
    const since = tools.clock.now() - command.sinceMs;
    const requests = await tools.requests(command, since);
    if (requests.length === 0) {
      tools.complain(
        `No request was recorded since ${new Date(since).toISOString()}: name a longer time (--since 24h), or the data folder of the gateway (--data, WEIR_DATA).`,
      );
      return 1;
    }
    let told = tools.clock.monotonic();
    const compared = await tools.atSides(command, requests, (sides) =>
      compareRequests(requests, sides, (done) => {
        if (tools.clock.monotonic() - told < progressMs) return;
        told = tools.clock.monotonic();
        tools.complain(`${done} of ${requests.length} requests`);
      }),
    );
    if ('problems' in compared) {
      for (const problem of compared.problems) tools.complain(formatProblem(problem));
      return 1;
    }
    const { result } = compared;
    tools.print(command.format === 'json' ? JSON.stringify(result, null, 2) : reportText(result, command));
    return result.changed > 0 ? changesCode : 0;
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

function reportText(report: ChangeReport, { config }: PlanCommand): string {
  const { requests, changed, classes, withoutBody, notJudged, unasked, recordsUnread } = report;
  const left = notJudged.reduce((sum, one) => sum + one.requests, 0);
  const lines = [
    `${config}: of ${counted(requests)} ${changed === 0 ? 'none changes' : `${changed} change`}${left > 0 ? `, ${left} cannot be judged` : ''}`,
    ...classes.flatMap((one) => ['', ...classLines(one)]),
  ];
  const notes = [
    ...(recordsUnread === null
      ? []
      : [`Records saved in the store apply to neither side, as it was not read: ${recordsUnread}`]),
    ...(withoutBody > 0
      ? [
          `${counted(withoutBody)} had no body in the log: judged by path, model and provider; guardrails see no text.`,
        ]
      : []),
    ...notJudged.map((one) => `${counted(one.requests)} not judged: ${one.what} (${one.example})`),
    ...unasked.map((one) => `Not asked: ${one.what}, for ${counted(one.requests)} (${one.example})`),
  ];
  return [...lines, ...(notes.length > 0 ? ['', ...notes] : [])].join('\n');
}

function classLines(one: ChangeReport['classes'][number]): string[] {
  const { pipeline, route, wire, model, config, requests, changed, routed, targets, cost } = one;
  const about = [wire, ...(model === '' ? [] : [model]), ...(config === '' ? [] : [`config ${config}`])].join(
    ', ',
  );
  const lines = [`${pipeline}  ${route}  (${about}): ${changed} of ${counted(requests)}`];
  const row = (name: string, text: string): void => void lines.push(`  ${name.padEnd(11)} ${text}`);
  if (routed !== undefined) {
    row('route', `${counted(routed.requests)} go elsewhere (${routed.example})`);
    const sums = { before: 0, after: 0 };
    for (const { before, after } of targets) {
      sums.before += before;
      sums.after += after;
    }
    for (const { target, before, after } of targets)
      row('', `${target}  ${shareText(before, sums.before)} → ${shareText(after, sums.after)}`);
  }
  for (const refusal of one.refusals) row('refusal', countedText(refusal));
  for (const parameter of one.parameters)
    row('parameters', `${parameter.what}: ${counted(parameter.requests)} (${parameter.example})`);
  if (Math.abs(cost.after - cost.before) > 1e-9) row('price', priceText(cost));
  return lines;
}

function countedText({ what, requests, example }: ChangeReport['notJudged'][number]): string {
  return `${counted(requests)} ${what} (${example})`;
}

function counted(requests: number): string {
  return requests === 1 ? '1 request' : `${requests} requests`;
}

function shareText(part: number, whole: number): string {
  return whole === 0 ? '0 %' : `${Number(((part / whole) * 100).toFixed(1))} %`;
}

function priceText({ before, after }: ChangeReport['classes'][number]['cost']): string {
  const rise =
    before === 0 ? '' : `, ${after > before ? '+' : ''}${((after / before - 1) * 100).toFixed(1)} %`;
  return `$${before.toFixed(6)} → $${after.toFixed(6)} for the recorded tokens${rise}`;
}
