import { randomUUID } from 'node:crypto';
import type { ConfigSource } from '../config/config-source.ts';
import { formatProblem } from '../config/problem.ts';
import { GatewayError, messageOf } from '../errors/gateway-error.ts';
import { canaryCounts, type CanaryCounts, type CanaryGate, type CanaryReport } from '../http/canary-gate.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  CanaryCaller,
  CanaryFigures,
  CanaryPhase,
  CanaryRules,
  CanaryState,
  ConfigCanaries,
  ConfigDraftText,
} from '../ports/config-file.ts';
import type { AuditEntry } from '../ports/resources.ts';
import type { Log } from '../ports/log.ts';
import type { MainFileEditor } from './config-file-editor.ts';
import type { Generation } from './generation.ts';
import type { Reloader } from './reload.ts';
import { describeThrown } from './plugin-errors.ts';

/** Processes that serve requests with this one: each has the canary, or none has. */
export interface CanaryFollowers {
  /** Builds it in every process, and gives it its share; resolves with the reasons of those that cannot. */
  beginCanary(source: ConfigSource, share: number): Promise<readonly string[]>;
  /** Sets its share in every process; resolves with what they have counted since the last call. */
  watchCanary(share: number): Promise<readonly CanaryReport[]>;
  endCanary(): Promise<void>;
}

/** Dependencies of `CanaryRuns`. */
interface CanaryOptions<C> {
  readonly editor: Pick<MainFileEditor, 'usable' | 'write'>;
  readonly reloader: () => Pick<Reloader<C>, 'buildCanary' | 'endCanary' | 'current' | 'restartNeeded'>;
  readonly load: (draft: Uint8Array) => ReturnType<Parameters<Reloader<C>['buildCanary']>[0]>;
  readonly gate: CanaryGate<Generation<C>>;
  readonly followers?: CanaryFollowers | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Writes an entry to the audit trail: what has become of it. Rejects when that is not possible. */
  readonly audit: (action: string, state: CanaryState, organisationId: string) => Promise<void>;
}

interface Run {
  readonly draft: ConfigDraftText;
  readonly caller: CanaryCaller;
  readonly id: string;
  readonly rules: CanaryRules;
  readonly startedAt: number;
  readonly begun: number;
  /** Hash of the configuration that served when it began. */
  readonly serving: string;
  readonly before: CanaryCounts;
  readonly after: CanaryCounts;
  share: number;
  endsAt: number;
  phase: CanaryPhase;
  reason: string;
  /** It ends: no second end begins. */
  isEnding: boolean;
}

/** Share with which it begins, percent. */
const firstShare = 0.5;

/** Steps of the whole time; at each the share doubles. */
const steps = 10;

const tickMs = 250;

/** Runs canaries of the configuration, one at a time, in the process that leads. */
export class CanaryRuns<C> implements ConfigCanaries {
  readonly #options: CanaryOptions<C>;
  #run: Run | undefined;
  #isStarting = false;

  constructor(options: CanaryOptions<C>) {
    this.#options = options;
  }

  state(): CanaryState | undefined {
    return this.#run && stateOf(this.#run);
  }

  async start(
    draft: ConfigDraftText,
    rules: Partial<CanaryRules>,
    caller: CanaryCaller,
  ): Promise<CanaryState> {
    const { editor, reloader, load, followers, gate, clock, log } = this.#options;
    if (this.#run?.phase === 'running') throw alreadyRuns(this.#run);
    if (this.#isStarting)
      throw new GatewayError(
        'resource_conflict',
        'Another canary of the configuration is about to begin. Wait for its end, or abort it.',
      );
    this.#isStarting = true;
    try {
      const text = await editor.usable(draft);
      const built = await reloader().buildCanary(() => load(new TextEncoder().encode(text)));
      if ('problems' in built) throw unusable(built.problems.map(formatProblem));
      const share = Math.min(firstShare, rules.share ?? reloader().current.config.changes.canary.share);
      const refusals = (await followers?.beginCanary(built.source, share)) ?? [];
      if (refusals.length > 0) throw unusable(refusals);
      const { hash, config } = reloader().current;
      gate.begin(built.generation, hash, share);
      const run: Run = {
        ...{ draft, caller, share, id: randomUUID(), serving: hash },
        rules: { ...config.changes.canary, ...rules },
        ...{ startedAt: clock.now(), begun: clock.monotonic(), endsAt: 0 },
        ...{
          before: canaryCounts.none(),
          after: canaryCounts.none(),
          phase: 'running',
          reason: '',
          isEnding: false,
        },
      };
      run.endsAt = run.startedAt + run.rules.duration_s * 1000;
      this.#run = run;
      log.info('A canary of the configuration has begun', {
        canary: run.id,
        generation: built.generation.hash,
      });
      this.#wait(run);
      return stateOf(run);
    } catch (error) {
      await this.#takeBack();
      throw error;
    } finally {
      this.#isStarting = false;
    }
  }

  async abort(caller: CanaryCaller): Promise<CanaryState> {
    const run = this.#run;
    if (run?.phase !== 'running' || run.isEnding)
      throw new GatewayError('resource_not_found', 'No canary of the configuration runs now.');
    await this.#end(run, 'aborted', `It was aborted with the key "${caller.name}".`);
    return stateOf(run);
  }

  #wait(run: Run): void {
    this.#options.clock.after(tickMs, () => {
      if (run.isEnding) return;
      this.#look(run).catch((error: unknown) => {
        this.#options.log.error('A canary of the configuration cannot be watched', {
          error: describeThrown(error),
        });
        return this.#end(run, 'reverted', `It could not be watched: ${messageOf(error)}`);
      });
    });
  }

  async #look(run: Run): Promise<void> {
    const { reloader, gate, clock, followers } = this.#options;
    const { rules } = run;
    const passedMs = clock.monotonic() - run.begun;
    const step = Math.floor((passedMs / (rules.duration_s * 1000)) * steps);
    run.share = Math.min(rules.share, firstShare * 2 ** Math.min(step, steps));
    if (gate.running !== undefined) gate.running.share = run.share;
    const own = gate.running?.report();
    const reports = [
      ...(own === undefined ? [] : [own]),
      ...((await followers?.watchCanary(run.share)) ?? []),
    ];
    if (run.isEnding) return;
    for (const { before, after } of reports) {
      canaryCounts.add(run.before, before);
      canaryCounts.add(run.after, after);
    }
    if (reloader().current.hash !== run.serving)
      return this.#end(
        run,
        'reverted',
        'Another configuration has begun to serve meanwhile. Start again from that one.',
      );
    if (reports.some(({ isStopped }) => isStopped)) {
      const { requests, errors, refusals } = run.after;
      const failed = `Of ${requests} requests ${errors} failed and ${refusals} were refused, one after the other.`;
      return this.#end(run, 'reverted', failed);
    }
    const worse = worseOf(run, rules);
    if (worse !== undefined) return this.#end(run, 'reverted', worse);
    if (passedMs < rules.duration_s * 1000) return this.#wait(run);
    if (run.after.requests >= rules.min_requests) return this.#complete(run);
    if (passedMs < 2 * rules.duration_s * 1000) return this.#wait(run);
    const few = `Only ${run.after.requests} requests met it in twice its time, and ${rules.min_requests} are needed (changes.canary.min_requests).`;
    return this.#end(run, 'reverted', few);
  }

  /** The new text becomes the file, and what all requests meet. */
  async #complete(run: Run): Promise<void> {
    const { editor } = this.#options;
    run.isEnding = true;
    try {
      const { outcome, faults } = await editor.write(run.draft, () =>
        this.#audit('complete', { ...run, phase: 'completed', reason: completedReason }, run.caller),
      );
      if (outcome !== 'failed') return await this.#end(run, 'completed', completedReason);
      await this.#end(run, 'reverted', `It could not start: ${faults[0]?.message ?? 'no reason is known'}.`);
    } catch (error) {
      await this.#end(run, 'reverted', `It could not be written: ${messageOf(error)}`);
    }
  }

  async #end(run: Run, phase: Exclude<CanaryPhase, 'running'>, reason: string): Promise<void> {
    const { clock, log } = this.#options;
    run.isEnding = true;
    await this.#takeBack();
    run.phase = phase;
    run.reason = reason;
    run.endsAt = clock.now();
    run.share = phase === 'completed' ? 100 : 0;
    const write = phase === 'completed' ? log.info.bind(log) : log.warn.bind(log);
    write(`A canary of the configuration is ${phase}: ${reason}`, { canary: run.id });
    if (phase !== 'completed') await this.#audit(phase === 'aborted' ? 'abort' : 'revert', run, run.caller);
  }

  async #takeBack(): Promise<void> {
    const { gate, followers, reloader } = this.#options;
    gate.end();
    reloader().endCanary();
    await followers?.endCanary();
  }

  /** A trail that cannot be written keeps no canary alive. */
  async #audit(action: string, run: Run, { organisationId }: CanaryCaller): Promise<void> {
    try {
      await this.#options.audit(action, stateOf(run), organisationId);
    } catch (error) {
      this.#options.log.error('The end of a canary is missing in the audit trail', { error });
    }
  }
}

const completedReason = 'Nothing became worse: it is the configuration now.';

function stateOf({
  id,
  phase,
  reason,
  startedAt,
  endsAt,
  share,
  rules,
  caller,
  before,
  after,
}: Run): CanaryState {
  return {
    ...{ id, phase, reason, startedAt, endsAt, share, rules, startedBy: caller.name },
    before: figuresOf(before),
    after: figuresOf(after),
  };
}

function figuresOf(counts: CanaryCounts): CanaryFigures {
  const { requests, errors, refusals } = counts;
  return { requests, errors, refusals, medianMs: canaryCounts.medianOf(counts) };
}

function alreadyRuns({ id, caller, startedAt, endsAt }: Run): GatewayError {
  const [from, to] = [startedAt, endsAt].map((at) => new Date(at).toISOString());
  return new GatewayError(
    'resource_conflict',
    `The canary ${id} of the configuration runs already: started at ${from} with the key "${caller.name}", it ends at ${to}. Wait for that, or abort it: with Ctrl-C in its weir apply, with DELETE /v1/admin/config-file/canary, or on the page Pipelines of the console.`,
  );
}

function unusable(reasons: readonly string[]): GatewayError {
  return new GatewayError('invalid_config', `The configuration cannot be tried: ${reasons[0] ?? ''}.`, {
    param: '/text',
    extra: { errors: reasons.map((message) => ({ path: '/text', message })) },
  });
}

/** The entry of the audit trail about what the gateway itself has done with a canary. */
export function canaryEntry({
  action,
  state,
  organisationId,
  at,
}: {
  readonly action: string;
  readonly state: CanaryState;
  readonly organisationId: string;
  readonly at: number;
}): AuditEntry {
  const { id, startedBy, reason, before, after } = state;
  return {
    ...{ id: randomUUID(), organisationId, workspaceId: '', at, action },
    ...{ actorType: 'system', actorId: 'configuration canary', actorName: 'configuration canary' },
    ...{ resourceType: 'config_file', resourceId: id, method: '', uri: '', requestId: id, status: 200 },
    clientIp: '',
    details: JSON.stringify({
      body: { reason, started_by: startedBy, before, after },
      ...(action !== 'complete' && { error: { message: reason } }),
    }),
  };
}

/** Fewer bad answers than this may be chance, whatever their share is. */
const fewest = 3;

/** Standard errors by which a share has to differ before it is no chance: about one in a thousand. */
const certain = 3;

/** A smaller rise of the median is the gateway's own, whatever its share is: a new configuration begins cold. */
const leastRiseMs = 5;

/** What both sides have served since the canary began. */
interface Counted {
  readonly before: CanaryCounts;
  readonly after: CanaryCounts;
}

/** Why the new configuration has to go, as a sentence; undefined when nothing is worse. */
export function worseOf({ before, after }: Counted, rules: CanaryRules): string | undefined {
  const errors = riseOf(
    'answers fail',
    [before.errors, after.errors],
    { before, after },
    rules.max_error_rise,
  );
  if (errors !== undefined) return errors;
  const refused = [before.refusals, after.refusals] as const;
  const refusals = riseOf('requests are refused', refused, { before, after }, rules.max_refusal_rise);
  if (refusals !== undefined) return refusals;
  const [was, is] = [canaryCounts.medianOf(before), canaryCounts.medianOf(after)];
  if (was === undefined || is === undefined || after.requests < rules.min_requests) return undefined;
  const rise = (is / was - 1) * 100;
  if (rise <= rules.max_latency_rise || is - was < leastRiseMs || mayBeChance(before, after))
    return undefined;
  return `Answers take ${rise.toFixed(0)} % longer: ${is.toFixed(0)} instead of ${was.toFixed(0)} ms at the median (at most ${rules.max_latency_rise} %).`;
}

/**
 * Whether the answers of the new configuration may be above the old median by chance: half of them are when nothing has
 * changed. Nine are the fewest that can be no chance.
 */
function mayBeChance(before: CanaryCounts, after: CanaryCounts): boolean {
  const { faster, alike, all } = canaryCounts.sharesAround(before, after);
  const slower = all - faster - alike / 2;
  return (slower - all / 2) / (Math.sqrt(all) / 2) < certain;
}

function riseOf(
  what: string,
  [was, is]: readonly [was: number, is: number],
  { before, after }: Counted,
  most: number,
): string | undefined {
  if (is < fewest || after.requests === 0) return undefined;
  const [old, next] = [before.requests === 0 ? 0 : was / before.requests, is / after.requests];
  if ((next - old) * 100 <= most) return undefined;
  const shared = (was + is) / (before.requests + after.requests);
  const error = Math.sqrt(shared * (1 - shared) * (1 / after.requests + 1 / Math.max(1, before.requests)));
  if (error > 0 && (next - old) / error < certain) return undefined;
  return `More ${what}: ${percent(next)} of ${after.requests} instead of ${percent(old)} of ${before.requests} (at most ${most} points more).`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
