import { noteVerdict, type RequestFacts, type Verdict } from '../../core/pipeline/facts.ts';
import {
  type CheckResult,
  GatewayError,
  type Judge,
  type JsonValue,
  type Scope,
} from '../../core/pipeline/plugin.ts';
import { Unanswered, withSecrets } from '../../core/organisation/guardrails.ts';
import type { GuardrailSpec } from '../../core/ports/guardrails.ts';
import { secretContext } from '../../core/ports/secret-managers.ts';
import { AskedSubject, type Judged } from './subjects.ts';

/** Result of one check, as clients see it. */
interface ShownCheck {
  readonly id: string;
  readonly verdict: boolean;
  readonly data: JsonValue;
  readonly error: { readonly name: string; readonly message: string } | null;
  readonly execution_time: number;
  readonly transformed: boolean;
  readonly created_at: string;
  readonly log: null;
  readonly fail_on_error: boolean;
  readonly skipped: boolean;
}

/** Result of one guardrail, as clients see it: an entry of `hook_results`. */
export interface ShownGuardrail {
  readonly verdict: boolean;
  readonly id: string;
  readonly type: GuardrailSpec['type'];
  readonly transformed: boolean;
  readonly checks: readonly ShownCheck[];
  readonly feedback: {
    readonly value: number;
    readonly weight: number;
    readonly metadata: Readonly<Record<string, string>>;
  } | null;
  readonly execution_time: number;
  readonly async: boolean;
  readonly deny: boolean;
  readonly created_at: string;
  /** All checks were skipped. */
  readonly skipped: boolean;
}

const defaultTimeoutMs = 5000;
const longestReason = 500;

interface RunningCheck {
  readonly id: string;
  /** In the log. */
  readonly name: string;
  readonly judge: Judge;
  readonly changes: boolean;
  readonly timeoutMs: number;
  readonly failsOnError: boolean;
  /** UTF-16 units that one finding spans at most; infinite for any length. */
  readonly reach: number;
  /** False where its plugin could not look at the parameters just now. */
  readonly isFinal: boolean;
}

type Check = GuardrailSpec['checks'][number];
type CheckParameters = Check['parameters'];

/** Adds the operator's settings for all checks of an id to parameters. */
export type CheckSettings = (check: Pick<Check, 'id' | 'parameters'>) => CheckParameters;

interface SpecCheck {
  readonly check: Check;
  /** Its place in the guardrail. */
  readonly index: number;
  readonly spec: GuardrailSpec;
}

/**
 * A check that cannot be created breaks whenever it is called, so that it passes nothing. Throws nothing but `Unanswered`.
 */
function runningCheck(of: SpecCheck, scope: Scope, settings: CheckSettings): RunningCheck {
  const { check, spec } = of;
  const { id, onError, timeoutMs = defaultTimeoutMs } = check;
  const name = `${spec.id}/${id}`;
  const fails = (failOnError: unknown): boolean =>
    onError === undefined ? spec.deny || failOnError === true : onError === 'fail';
  try {
    const definition = scope.guards.definition(id);
    if (definition === undefined)
      throw new Error(`this gateway has no check "${id.slice(0, 64)}": ${remedy}`);
    const given = opened(of, scope);
    // Parameters within a config were checked with it; a record may be older than the check.
    const [issue] = (spec.version === undefined ? undefined : scope.guards.issues(id, given)) ?? [];
    if (issue !== undefined)
      throw new Error(`its parameters do not fit it: ${issue.path} ${issue.message}; correct the guardrail`);
    const parameters = settings({ id: definition.id, parameters: given });
    return {
      id,
      name,
      judge: definition.create(parameters, scope),
      changes: definition.changes === true,
      timeoutMs: check.timeoutMs ?? definition.timeoutMs ?? defaultTimeoutMs,
      failsOnError: fails((parameters as { readonly failOnError?: unknown }).failOnError),
      reach: definition.reach?.(parameters) ?? Infinity,
      isFinal: true,
    };
  } catch (error) {
    if (error instanceof Unanswered) throw error;
    const judge: Judge = () => {
      throw error;
    };
    const failsOnError = fails(check.parameters['failOnError']);
    const isFinal = !(GatewayError.is(error) && error.code === 'plugin_unavailable');
    return { id, name, judge, changes: false, timeoutMs, failsOnError, reach: Infinity, isFinal };
  }
}

const remedy = 'list the plugin that offers it, or take it out of the guardrail';

/** Parameters with the decrypted credentials of the record. */
function opened(
  { spec: { sealed }, index, check: { parameters } }: SpecCheck,
  { secrets: box }: Scope,
): CheckParameters {
  if (sealed === undefined) return parameters;
  return withSecrets(parameters, index, (field) => {
    const secret = sealed.secrets[field];
    return secret === undefined ? undefined : box.open(secret, secretContext(sealed.recordId, field));
  });
}

/** A guardrail whose checks have been created; one for each guardrail and generation. */
export class RunningGuardrail {
  readonly spec: GuardrailSpec;
  /** It refuses requests and answers that do not pass. */
  readonly refuses: boolean;
  /** One of its checks may change the subject. */
  readonly changes: boolean;
  /** Length of the longest finding in UTF-16 units; undefined where there is no greatest length. */
  readonly reach: number | undefined;
  /** False where one of its checks could not be created just now, and may be the next time. */
  readonly isFinal: boolean;
  /** How a streamed answer is judged. */
  readonly stream: 'hold' | 'window' | 'observe';
  readonly #checks: readonly RunningCheck[];
  readonly #scope: Scope;

  /** Throws `Unanswered` while a thread looks at parameters. */
  constructor(spec: GuardrailSpec, scope: Scope, settings: CheckSettings) {
    this.spec = spec;
    this.#scope = scope;
    this.#checks = spec.checks.flatMap((check, index) =>
      check.isEnabled ? [runningCheck({ check, index, spec }, scope, settings)] : [],
    );
    const longest = Math.max(0, ...this.#checks.map(({ reach }) => reach));
    this.isFinal = this.#checks.every(({ isFinal }) => isFinal);
    this.refuses = spec.deny && !spec.isAsync;
    this.changes = this.#checks.some(({ changes }) => changes);
    this.reach = Number.isFinite(longest) ? longest : undefined;
    const wanted = spec.stream ?? (this.refuses ? 'hold' : 'observe');
    const cannotPass = this.changes || (wanted === 'window' && this.reach === undefined);
    this.stream = cannotPass ? 'hold' : wanted;
  }

  /** Judges the subject, and notes each check in the log of the request. A promise only when a check waits. */
  judge(
    subject: Judged,
    hook: Verdict['hook'],
    facts: RequestFacts,
  ): ShownGuardrail | Promise<ShownGuardrail> {
    const begunAt = this.#scope.clock.monotonic();
    const results: (ShownCheck | Promise<ShownCheck>)[] = [];
    // A check that changes the subject runs in order with the others, so that later ones see its changes.
    const isSequential = this.spec.isSequential || this.changes;
    const asking = { hook, facts };
    let isWaiting = false;
    for (let index = 0; index < this.#checks.length; index += 1) {
      const result = this.#ask(this.#checks[index] as RunningCheck, subject, asking);
      results.push(result);
      if (!(result instanceof Promise)) continue;
      if (isSequential) return this.#goOn(index, results, { subject, hook, facts, begunAt });
      isWaiting = true;
    }
    if (!isWaiting) return this.#shown(results as ShownCheck[], begunAt);
    return allOf(results).then((all) => this.#shown(all, begunAt));
  }

  async #goOn(
    index: number,
    begun: readonly (ShownCheck | Promise<ShownCheck>)[],
    { subject, hook, facts, begunAt }: Judging,
  ): Promise<ShownGuardrail> {
    const results = await allOf(begun);
    for (const check of this.#checks.slice(index + 1))
      results.push(await this.#ask(check, subject, { hook, facts }));
    return this.#shown(results, begunAt);
  }

  #ask(
    check: RunningCheck,
    subject: Judged,
    { hook, facts }: Pick<Judging, 'hook' | 'facts'>,
  ): ShownCheck | Promise<ShownCheck> {
    const { clock } = this.#scope;
    const begunAt = clock.monotonic();
    const note = noteOf(facts, check.name, hook);
    const asked = new AskedSubject(subject, check.changes);
    const asking = { note, asked, begunAt };
    try {
      const pending = check.judge(asked);
      if (!(pending instanceof Promise)) return this.#judged(check, pending, asking);
      return this.#bounded(pending, check, asked).then(
        (result) => this.#judged(check, result, asking),
        (error: unknown) => this.#errored(check, error, asking),
      );
    } catch (error) {
      return this.#errored(check, error, asking);
    }
  }

  #bounded(
    pending: Promise<CheckResult>,
    { timeoutMs }: RunningCheck,
    asked: AskedSubject,
  ): Promise<CheckResult> {
    return new Promise((resolve, reject) => {
      const cancel = this.#scope.clock.after(timeoutMs, () => {
        asked.end();
        reject(new Error(`it has not judged within ${timeoutMs} ms`));
      });
      pending.then(resolve, reject).finally(() => {
        cancel();
        asked.close();
      });
    });
  }

  #judged(
    { id, failsOnError }: RunningCheck,
    result: CheckResult,
    { note, asked, begunAt }: Asking,
  ): ShownCheck {
    const { verdict, data = null } = result;
    const transformed = asked.isChanged;
    note.ms += this.#scope.clock.monotonic() - begunAt;
    if (verdict === 'failed') settle(note, this.refuses ? 'refused' : 'flagged');
    else if (verdict === 'skipped') settle(note, 'skipped');
    else settle(note, transformed ? 'changed' : 'passed');
    return {
      id,
      verdict: verdict !== 'failed',
      data,
      error: null,
      ...this.#timing(begunAt),
      transformed,
      log: null,
      fail_on_error: failsOnError,
      skipped: verdict === 'skipped',
    };
  }

  /** A check that could not judge passes only where the guardrail says so, and is reported as broken. */
  #errored(check: RunningCheck, error: unknown, { note, asked, begunAt }: Asking): ShownCheck {
    const { id, failsOnError } = check;
    note.ms += this.#scope.clock.monotonic() - begunAt;
    settle(note, 'failed');
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    this.#scope.log.warn(`The check "${id}" of the guardrail "${this.spec.id}" could not judge`, { error });
    return {
      id,
      verdict: !failsOnError,
      data: null,
      error: { name, message: message.slice(0, longestReason) },
      ...this.#timing(begunAt),
      transformed: asked.isChanged,
      log: null,
      fail_on_error: failsOnError,
      skipped: false,
    };
  }

  #shown(checks: readonly ShownCheck[], begunAt: number): ShownGuardrail {
    const { spec } = this;
    let verdict = true;
    let transformed = false;
    let skipped = true;
    for (const check of checks) {
      verdict &&= check.verdict;
      transformed ||= check.transformed;
      skipped &&= check.skipped;
    }
    const feedback = verdict ? spec.onSuccess : spec.onFail;
    return {
      verdict,
      id: spec.id,
      type: spec.type,
      transformed,
      checks,
      feedback:
        feedback === undefined
          ? null
          : {
              value: feedback.value,
              weight: feedback.weight,
              metadata: {
                successfulChecks: namesOf(checks, ({ verdict: passes, error }) => passes && error === null),
                failedChecks: namesOf(checks, ({ verdict: passes, error }) => !passes && error === null),
                erroredChecks: namesOf(checks, ({ error }) => error !== null),
              },
            },
      ...this.#timing(begunAt),
      async: spec.isAsync,
      deny: spec.deny,
      skipped,
    };
  }

  #timing(begunAt: number): { readonly execution_time: number; readonly created_at: string } {
    const { clock } = this.#scope;
    return {
      execution_time: Math.round(clock.monotonic() - begunAt),
      created_at: isoTime(clock.now()),
    };
  }
}

function namesOf(checks: readonly ShownCheck[], isOf: (check: ShownCheck) => boolean): string {
  return checks
    .filter(isOf)
    .map(({ id }) => id)
    .join(', ');
}

/** The record of a check. Over a stream it judges piece by piece, and has one record for all of them. */
function noteOf(facts: RequestFacts, name: string, hook: Verdict['hook']): Verdict {
  const known =
    hook === 'stream' ? facts.verdicts.find((one) => one.name === name && one.hook === hook) : undefined;
  return known ?? noteVerdict(facts, name, hook);
}

/** Verdicts on the pieces of a stream, in ascending precedence. */
const weights: readonly Verdict['verdict'][] = ['unfinished', 'skipped', 'passed', 'changed'];

function settle(note: Verdict, verdict: Verdict['verdict']): void {
  const before = weights.indexOf(note.verdict);
  // A finding or a failure to judge stays.
  if (before >= 0 && (weights.indexOf(verdict) < 0 || weights.indexOf(verdict) > before))
    note.verdict = verdict;
}

let shownTime = { at: NaN, text: '' };

/** Many checks end within the same millisecond. */
function isoTime(at: number): string {
  if (shownTime.at !== at) shownTime = { at, text: new Date(at).toISOString() };
  return shownTime.text;
}

/** All results, in order, once the last one is there. */
export function allOf<T>(results: readonly (T | Promise<T>)[]): Promise<T[]> {
  return Promise.all(results.map((one) => Promise.resolve(one)));
}

interface Judging {
  readonly subject: Judged;
  readonly hook: Verdict['hook'];
  readonly facts: RequestFacts;
  readonly begunAt: number;
}

interface Asking {
  readonly note: Verdict;
  readonly asked: AskedSubject;
  readonly begunAt: number;
}
