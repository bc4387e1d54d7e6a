import { type HeldAnswer, holdAnswer } from '../../core/pipeline/held-answer.ts';
import { type Answer, isStreamSource } from '../../core/pipeline/answer.ts';
import {
  type AttemptContext,
  defineKey,
  definePlugin,
  GatewayError,
  type JsonValue,
  type Scope,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { GuardrailSpec, GuardrailSpecs } from '../../core/ports/guardrails.ts';
import { builtInChecks } from './checks/index.ts';
import { RunningGuardrail, type ShownGuardrail } from './running-guardrail.ts';
import { GuardrailTap } from './streamed-answer.ts';
import { AnswerSubject, type Judged, RequestSubject } from './subjects.ts';

/** What guardrails have said of the present attempt. */
interface Said {
  readonly before: readonly ShownGuardrail[];
  /** What `before` was said of, to say it again of the very same. */
  readonly specs: readonly GuardrailSpec[];
  readonly text: string;
  after: readonly ShownGuardrail[];
  /** Judges the answer while it is streamed. */
  tap: GuardrailTap | undefined;
  /** Names of those in `tap`. */
  streaming: readonly string[];
}

const said = defineKey<Said | undefined>('guardrails');

/** Runs the guardrails of configs and headers on every attempt: on the request before it, on its answer behind it. */
export default definePlugin({
  name: 'guardrails',
  description:
    'Runs the guardrails that configs and headers name: on requests as they go to each target, and on the answers before they leave. Put it before `cache`, so that answers from there are judged too. What does not pass is refused with 446 where the guardrail denies, and marked with 246 else; `hook_results` in the answer say why.',
  schema: Type.Object({}, { additionalProperties: false }),
  offers: builtInChecks,
  // Each check has a bound of its own.
  capabilities: { stream: 'observe', timeoutMs: 0 },
  create(_options, scope) {
    if (!scope.features.isOn('guardrails')) return {};
    const engine = new GuardrailEngine(scope);
    return {
      attempt: (context) => engine.judgeRequest(context),
      attempted: (context, answer) => engine.judgeAnswer(context, answer),
      stream: (context) => context.get(said)?.tap,
      settled(context) {
        const { tap, streaming = [] } = context.get(said) ?? {};
        if (tap === undefined || tap.isComplete) return;
        const { facts } = context;
        const left = streaming.map(
          (name) => ({ name, hook: 'stream', verdict: 'unfinished', ms: 0 }) as const,
        );
        facts.verdicts = [...facts.verdicts, ...left];
      },
    };
  },
});

class GuardrailEngine {
  readonly #scope: Scope;
  readonly #running = new WeakMap<GuardrailSpec, RunningGuardrail>();

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Throws `hooks_failed` for a request that a guardrail denies. */
  judgeRequest(context: AttemptContext): undefined | Promise<undefined> {
    const { guardrails, body } = context.attempt;
    if (guardrails === undefined) {
      if (context.get(said) !== undefined) context.set(said, undefined);
      return undefined;
    }
    const specs = guardrails.input;
    const text = body.loaded ? body.text : '';
    const earlier = context.get(said);
    // Another attempt with the very same body: what was said of it holds.
    const isKnown = earlier !== undefined && earlier.text === text && sameSpecs(earlier.specs, specs);
    const keep = (before: readonly ShownGuardrail[]): undefined => {
      context.set(said, { before, specs, text, after: [], tap: undefined, streaming: [] });
      refuseDenied(before, { before, after: [] });
    };
    if (isKnown && !earlier.before.some(({ transformed }) => transformed)) return keep(earlier.before);
    const shown = this.#judge(specs, new RequestSubject(context), context);
    return shown instanceof Promise ? shown.then(keep) : keep(shown);
  }

  /** The answer as it leaves. Throws `hooks_failed` for one that a guardrail denies. */
  judgeAnswer(context: AttemptContext, answer: Answer): undefined | Promise<Answer | undefined> {
    const { guardrails } = context.attempt;
    const state = context.get(said);
    if (guardrails === undefined || state === undefined) return undefined;
    if (answer.status < 200 || answer.status > 299) return undefined;
    return this.#judgeAnswer({ context, answer, guardrails, state });
  }

  async #judgeAnswer({ context, answer, guardrails, state }: Judging): Promise<Answer | undefined> {
    const { before } = state;
    const isFlagged = before.some(isFlagging);
    const running = guardrails.output.map((spec) => this.#runningOf(spec));
    const isStream = isStreamSource(answer.body);
    const whole = running.filter(({ stream, reach }) => {
      if (!isStream) return true;
      return stream === 'hold' || (stream === 'window' && reach === undefined);
    });
    const onTheWay = running.filter((one) => !whole.includes(one));
    if (onTheWay.length > 0) {
      state.streaming = onTheWay.map(({ spec }) => spec.id);
      state.tap = this.#tap(context, onTheWay, state);
    }
    if (isStream && whole.length === 0) return isFlagged ? { ...answer, status: 246 } : undefined;
    const held = await holdAnswer(context, answer);
    const specs = whole.map(({ spec }) => spec);
    if (held === undefined) {
      this.#skip(specs, context);
      return isFlagged ? { ...answer, status: 246 } : undefined;
    }
    const subject = new AnswerSubject(context, held.response);
    const after = await this.#judge(specs, subject, context);
    state.after = after;
    refuseDenied(after, { before, after });
    if (isFlagged || after.some(isFlagging)) held.response.status = 246;
    tellResults(held, { before, after });
    return held.answer();
  }

  #tap(context: AttemptContext, running: readonly RunningGuardrail[], state: Said): GuardrailTap {
    return new GuardrailTap({
      context,
      windows: running.filter(({ stream }) => stream === 'window'),
      observers: running.filter(({ stream }) => stream === 'observe'),
      took: (shown) => {
        const isDenied = !shown.verdict && shown.deny && !shown.async;
        if (isDenied || !state.after.some(({ id }) => id === shown.id)) state.after = [...state.after, shown];
        const { before, after } = state;
        if (running.some(({ spec, stream }) => spec.id === shown.id && stream === 'window'))
          refuseDenied([shown], { before, after });
      },
    });
  }

  /** Those that change something run in order, each seeing what the one before has changed; the others side by side. */
  #judge(
    specs: readonly GuardrailSpec[],
    subject: Judged,
    context: AttemptContext,
  ): readonly ShownGuardrail[] | Promise<readonly ShownGuardrail[]> {
    const hook = subject.phase === 'input' ? 'attempt' : 'attempted';
    const results: ShownGuardrail[] = [];
    for (const [index, spec] of specs.entries()) {
      const running = this.#runningOf(spec);
      const shown = running.judge(subject, hook, context.facts);
      if (!(shown instanceof Promise)) {
        if (!spec.isAsync) results.push(shown);
        continue;
      }
      // Nobody waits for it; what it comes to stands in the log.
      if (spec.isAsync) continue;
      return this.#goOn(
        { specs: specs.slice(index + 1), subject, context },
        [...results, shown],
        running.changes,
      );
    }
    return results;
  }

  async #goOn(
    {
      specs,
      subject,
      context,
    }: { specs: readonly GuardrailSpec[]; subject: Judged; context: AttemptContext },
    begun: readonly (ShownGuardrail | Promise<ShownGuardrail>)[],
    isChanging: boolean,
  ): Promise<readonly ShownGuardrail[]> {
    const hook = subject.phase === 'input' ? 'attempt' : 'attempted';
    const results = [...begun];
    if (isChanging) await settledAll(results);
    for (const spec of specs) {
      const running = this.#runningOf(spec);
      if (running.changes) await settledAll(results);
      const shown = running.judge(subject, hook, context.facts);
      if (spec.isAsync) continue;
      results.push(shown);
      if (running.changes) await shown;
    }
    return settledAll(results);
  }

  #skip(specs: readonly GuardrailSpec[], { facts }: AttemptContext): void {
    const skipped = specs.map(
      ({ id: name }) => ({ name, hook: 'attempted', verdict: 'skipped', ms: 0 }) as const,
    );
    facts.verdicts = [...facts.verdicts, ...skipped];
  }

  #runningOf(spec: GuardrailSpec): RunningGuardrail {
    let running = this.#running.get(spec);
    if (running === undefined) this.#running.set(spec, (running = new RunningGuardrail(spec, this.#scope)));
    return running;
  }
}

function settledAll(
  results: readonly (ShownGuardrail | Promise<ShownGuardrail>)[],
): Promise<readonly ShownGuardrail[]> {
  return Promise.all(results.map((one) => Promise.resolve(one)));
}

interface Judging {
  readonly context: AttemptContext;
  readonly answer: Answer;
  readonly guardrails: GuardrailSpecs;
  readonly state: Said;
}

interface Results {
  readonly before: readonly ShownGuardrail[];
  readonly after: readonly ShownGuardrail[];
}

function sameSpecs(left: readonly GuardrailSpec[], right: readonly GuardrailSpec[]): boolean {
  return left.length === right.length && left.every((spec, index) => spec === right[index]);
}

/** It did not pass, and the answer leaves all the same, marked. */
function isFlagging({ verdict, async }: ShownGuardrail): boolean {
  return !verdict && !async;
}

/** The results beside the answer, where it is one JSON object and something was judged. */
function tellResults({ response, isStream }: HeldAnswer, results: Results): void {
  const { json } = response;
  if (isStream || typeof json !== 'object' || json === null || Array.isArray(json)) return;
  if (results.before.length + results.after.length === 0) return;
  response.set(['hook_results'], hookResults(results));
}

function hookResults({ before, after }: Results): { [name: string]: JsonValue } {
  // Plain JSON, as clients know it.
  const plain = (shown: readonly ShownGuardrail[]) => JSON.parse(JSON.stringify(shown)) as JsonValue;
  return { before_request_hooks: plain(before), after_request_hooks: plain(after) };
}

/** Throws for the first that denies. */
function refuseDenied(shown: readonly ShownGuardrail[], results: Results): void {
  const denying = shown.find(({ verdict, deny, async }) => !verdict && deny && !async);
  if (denying === undefined) return;
  const failing = denying.checks.find(({ verdict }) => !verdict);
  const what = results.after.includes(denying) ? 'answer' : 'request';
  const reason =
    failing?.error === null || failing === undefined
      ? `its check "${failing?.id ?? ''}" failed`
      : `its check "${failing.id}" could not judge it: ${failing.error.message}`;
  throw new GatewayError(
    'hooks_failed',
    `The guardrail "${denying.id}" refused the ${what}: ${reason}. "hook_results" say more.`,
    { extra: { hook_results: hookResults(results) } },
  );
}
