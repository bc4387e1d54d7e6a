import { type HeldAnswer, holdAnswer, isReadable } from '../../core/pipeline/held-answer.ts';
import { type Answer, isStreamSource } from '../../core/pipeline/answer.ts';
import { noteVerdict, type Verdict } from '../../core/pipeline/facts.ts';
import { callerKey, streamNotes } from '../../core/pipeline/keys.ts';
import {
  type AttemptContext,
  defineKey,
  definePlugin,
  GatewayError,
  type JsonValue,
  type RequestContext,
  type Scope,
  Type,
} from '../../core/pipeline/plugin.ts';
import {
  addToolCallGate,
  type ToolCall,
  type ToolCallGate,
  type ToolResult,
} from '../../core/pipeline/tool-calls.ts';
import type { GuardrailSpec, GuardrailSpecs } from '../../core/ports/guardrails.ts';
import { whenAnswered } from '../../core/organisation/guardrails.ts';
import { newFeedback } from '../../core/organisation/new-feedback.ts';
import { builtInChecks } from './checks/index.ts';
import { serviceChecks, ServicesSchema, withOperatorSettings } from './services/index.ts';
import { allOf, type CheckSettings, RunningGuardrail, type ShownGuardrail } from './running-guardrail.ts';
import { GuardrailTap } from './streamed-answer.ts';
import { AnswerSubject, type Judged, RequestSubject } from './subjects.ts';
import { ArgumentsSubject, type KeptOfCall, ResultSubject } from './tool-subjects.ts';

/** Guardrail results of the present attempt. */
interface Said {
  readonly before: readonly ShownGuardrail[];
  /** Guardrails of `before`, to reuse its results for the very same ones. */
  readonly specs: readonly GuardrailSpec[];
  readonly text: string;
  after: readonly ShownGuardrail[];
  /** Guardrails of the answer. */
  readonly output: readonly GuardrailSpec[];
  /** Judges the answer while it is streamed. */
  tap: GuardrailTap | undefined;
  /** Names of those in `tap`. */
  streaming: readonly string[];
}

const said = defineKey<Said | undefined>('guardrails');

const OptionsSchema = Type.Object(
  { services: Type.Optional(ServicesSchema) },
  { additionalProperties: false },
);

/** Runs the guardrails of configs and headers on every attempt: on the request before it, on its answer behind it. */
export default definePlugin({
  name: 'guardrails',
  description:
    'Runs the guardrails that configs and headers name: on requests as sent to each target, and on answers before they reach the client; on the arguments and results of calls of MCP tools. Put it before `cache`, so that cached answers are judged too, and before `mcp`. A request or answer that does not pass is refused with 446 if the guardrail denies, else marked with 246; `hook_results` in the answer give the reasons.',
  schema: OptionsSchema,
  offers: [...builtInChecks, ...serviceChecks],
  // Each check has a bound of its own.
  capabilities: { stream: 'observe', timeoutMs: 0 },
  create({ services = {} }, scope) {
    if (!scope.features.isOn('guardrails')) return {};
    const engine = new GuardrailEngine(scope, (check) => withOperatorSettings(check, services));
    return {
      request(context) {
        if (context.endpoint.id === 'mcp') addToolCallGate(context, engine.toolGate(context));
      },
      attempt: (context) => engine.judgeRequest(context),
      attempted: (context, answer) => engine.judgeAnswer(context, answer),
      stream: (context) => context.get(said)?.tap,
      settled(context, { status }) {
        const { tap, streaming = [], before = [], after = [], output = [] } = context.get(said) ?? {};
        // Guardrails see no messages of a WebSocket.
        if (status === 101)
          for (const { id } of output) noteVerdict(context.facts, id, 'attempted', 'skipped');
        engine.giveFeedback(context, [...before, ...after]);
        if (tap === undefined || tap.isComplete) return;
        const refusing = after.find(isDenying)?.id;
        for (const name of streaming) if (name !== refusing) noteVerdict(context.facts, name, 'stream');
      },
    };
  },
});

class GuardrailEngine {
  readonly #scope: Scope;
  readonly #settings: CheckSettings;
  readonly #running = new WeakMap<GuardrailSpec, RunningGuardrail>();

  constructor(scope: Scope, settings: CheckSettings) {
    this.#scope = scope;
    this.#settings = settings;
  }

  /** Stores the feedback that guardrails give by themselves (`on_success`, `on_fail`), as if the caller had given it. */
  giveFeedback(context: RequestContext, shown: readonly ShownGuardrail[]): void {
    const caller = context.get(callerKey);
    if (caller === undefined) return;
    const { clock, journal } = this.#scope;
    for (const { id: guardrail, feedback, skipped } of shown) {
      // A guardrail that judged nothing gives no feedback.
      if (feedback === null || skipped) continue;
      const row = newFeedback(
        caller,
        {
          trace_id: context.facts.traceId,
          value: Math.round(feedback.value),
          weight: feedback.weight,
          metadata: JSON.stringify({ guardrail, ...feedback.metadata }),
        },
        clock.now(),
      );
      journal.append('feedback', JSON.stringify(row), caller.workspaceId);
    }
  }

  /** Throws `hooks_failed` for a request that a guardrail denies. */
  judgeRequest(context: AttemptContext): undefined | Promise<undefined> {
    const { guardrails, body } = context.attempt;
    if (guardrails === undefined) {
      if (context.get(said) !== undefined) context.set(said, undefined);
      return undefined;
    }
    if (context.get(streamNotes) !== undefined) context.set(streamNotes, undefined);
    const specs = guardrails.input;
    const text = body.loaded ? body.text : '';
    const earlier = context.get(said);
    // Another attempt with the very same body: its results hold.
    const isKnown = earlier !== undefined && earlier.text === text && sameSpecs(earlier.specs, specs);
    const keep = (before: readonly ShownGuardrail[]): undefined => {
      const { output } = guardrails;
      context.set(said, { before, specs, text, after: [], output, tap: undefined, streaming: [] });
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
    const running = await whenAnswered(() => guardrails.output.map((spec) => this.#runningOf(spec)));
    const isStream = isStreamSource(answer.body);
    const isUnread = isStream && !isReadable(context, answer);
    const isWhole = ({ stream }: RunningGuardrail): boolean => !isStream || isUnread || stream === 'hold';
    const whole = running.filter(isWhole);
    const onTheWay = running.filter((one) => !isWhole(one));
    if (onTheWay.length > 0) {
      state.streaming = onTheWay.map(({ spec }) => spec.id);
      state.tap = this.#tap(context, onTheWay, state);
    }
    if (isStream && !context.attempt.isStrict) context.set(streamNotes, notesOf(context, state));
    if (isStream && whole.length === 0) return isFlagged ? { ...answer, status: 246 } : undefined;
    const held = await holdAnswer(context, answer);
    const specs = whole.map(({ spec }) => spec);
    if (held === undefined) {
      for (const { id } of specs) noteVerdict(context.facts, id, 'attempted', 'skipped');
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

  /** Judges the calls of tools that a request holds: their arguments, and their results. */
  toolGate(context: RequestContext): ToolCallGate {
    const { router } = this.#scope;
    const calls = new WeakMap<ToolCall, CallSoFar>();
    const soFar = (call: ToolCall): CallSoFar => {
      let known = calls.get(call);
      if (known === undefined) calls.set(call, (known = { before: [], kept: new Map() }));
      return known;
    };
    return {
      before: (call) =>
        whenAnswered(() => {
          const specs = router.toolGuardrails(context, call);
          if (specs === undefined || specs.input.length === 0) return undefined;
          const state = soFar(call);
          const keep = (before: readonly ShownGuardrail[]): void => {
            state.before = before;
            this.giveFeedback(context, before);
            refuseDenied(before, { before, after: [] }, 'call');
          };
          const subject = new ArgumentsSubject({ context, call, kept: state.kept });
          const shown = this.#judge(specs.input, subject, context);
          return shown instanceof Promise ? shown.then(keep) : keep(shown);
        }),
      wantsResult: (call) => {
        const isJudged = (calls.get(call)?.before ?? []).length > 0;
        return isJudged || (router.toolGuardrails(context, call)?.output ?? []).length > 0;
      },
      after: async (call, held) => {
        if (!isToolResult(call, held)) return;
        const { before, kept } = soFar(call);
        const output = router.toolGuardrails(context, call)?.output ?? [];
        const after = await this.#judge(output, new ResultSubject({ context, call, kept }, held), context);
        this.giveFeedback(context, after);
        refuseDenied(after, { before, after }, 'result');
        if (before.length + after.length > 0) held.result = withResults(held.result, { before, after });
      },
    };
  }

  #tap(context: AttemptContext, running: readonly RunningGuardrail[], state: Said): GuardrailTap {
    return new GuardrailTap({
      context,
      windows: running.filter(({ stream }) => stream === 'window'),
      observers: running.filter(({ stream }) => stream === 'observe'),
      took: (shown) => {
        // A window judges piece by piece: one that did not pass counts for all.
        const known = state.after.find(({ id }) => id === shown.id);
        if (known === undefined || (known.verdict && !shown.verdict))
          state.after = [...state.after.filter((one) => one !== known), shown];
        const { before, after } = state;
        if (running.some(({ spec, stream }) => spec.id === shown.id && stream === 'window'))
          refuseDenied([shown], { before, after });
      },
    });
  }

  /** Guardrails that change something run in order, each on the result of the one before; the others run concurrently. */
  #judge(
    specs: readonly GuardrailSpec[],
    subject: Judged,
    context: RequestContext,
  ): readonly ShownGuardrail[] | Promise<readonly ShownGuardrail[]> {
    const running = whenAnswered(() => specs.map((spec) => this.#runningOf(spec)));
    if (running instanceof Promise) return running.then(() => this.#judge(specs, subject, context));
    const results: ShownGuardrail[] = [];
    for (const [index, spec] of specs.entries()) {
      const shown = (running[index] as RunningGuardrail).judge(subject, hookOf(subject), context.facts);
      if (shown instanceof Promise && !spec.isAsync)
        return this.#goOn({ specs, subject, context }, index, [...results, shown]);
      if (spec.isAsync) this.#later(context, shown);
      else if (!(shown instanceof Promise)) results.push(shown);
    }
    return results;
  }

  /** The same from `from` on, the first guardrail that has to be awaited. */
  async #goOn(
    {
      specs,
      subject,
      context,
    }: { specs: readonly GuardrailSpec[]; subject: Judged; context: RequestContext },
    from: number,
    begun: readonly (ShownGuardrail | Promise<ShownGuardrail>)[],
  ): Promise<readonly ShownGuardrail[]> {
    const results = [...begun];
    let isChanging = this.#runningOf(specs[from] as GuardrailSpec).changes;
    for (const spec of specs.slice(from + 1)) {
      const running = this.#runningOf(spec);
      if (isChanging || running.changes) await allOf(results);
      isChanging = running.changes;
      const shown = running.judge(subject, hookOf(subject), context.facts);
      if (spec.isAsync) this.#later(context, shown);
      else results.push(shown);
    }
    return allOf(results);
  }

  /** An asynchronous guardrail reports only in the log and by its feedback. */
  #later(context: RequestContext, shown: ShownGuardrail | Promise<ShownGuardrail>): void {
    if (shown instanceof Promise) void shown.then((one) => this.giveFeedback(context, [one]));
    else this.giveFeedback(context, [shown]);
  }

  #runningOf(spec: GuardrailSpec): RunningGuardrail {
    let running = this.#running.get(spec);
    if (running === undefined) {
      running = new RunningGuardrail(spec, this.#scope, this.#settings);
      if (running.isFinal) this.#running.set(spec, running);
    }
    return running;
  }
}

function hookOf({ phase }: Judged): Verdict['hook'] {
  return phase === 'input' ? 'attempt' : 'attempted';
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

/** It did not pass; unless it denies, the answer leaves, marked. */
function isFlagging({ verdict, async }: ShownGuardrail): boolean {
  return !verdict && !async;
}

/** It did not pass, and nothing leaves. */
function isDenying(shown: ShownGuardrail): boolean {
  return isFlagging(shown) && shown.deny;
}

/** The results beside the answer, where it is one JSON object and something was judged. */
function tellResults({ response, isStream }: HeldAnswer, results: Results): void {
  const { json } = response;
  if (isStream || typeof json !== 'object' || json === null || Array.isArray(json)) return;
  if (results.before.length + results.after.length === 0) return;
  response.set(['hook_results'], JSON.parse(JSON.stringify(hookResults(results))) as JsonValue);
}

/** The results beside a stream, on the wires that have a place for them; undefined for the others. */
function notesOf({ endpoint }: AttemptContext, state: Results) {
  const name = endpoint.id === 'messages' ? 'event: hook_results\n' : '';
  if (name === '' && endpoint.id !== 'chat.completions' && endpoint.id !== 'completions') return undefined;
  const note = (results: Partial<ReturnType<typeof hookResults>>): Buffer | undefined => {
    if (Object.values(results).every((list) => list.length === 0)) return undefined;
    return Buffer.from(`${name}data: ${JSON.stringify({ hook_results: results })}\n\n`);
  };
  return {
    first: () => note({ before_request_hooks: state.before }),
    last: () => note({ after_request_hooks: state.after }),
  };
}

function hookResults({ before, after }: Results) {
  return { before_request_hooks: before, after_request_hooks: after };
}

/** Guardrails of one call of a tool, between its arguments and its result. */
interface CallSoFar {
  before: readonly ShownGuardrail[];
  readonly kept: KeptOfCall;
}

/**
 * A stream that is taken up again brings answers whose requests are not known: the call has no name. Only what is built
 * like the result of a call is one then.
 */
function isToolResult({ tool }: ToolCall, { result }: ToolResult): boolean {
  if (tool !== '') return true;
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return false;
  return Array.isArray(result['content']) || result['structuredContent'] !== undefined;
}

/** The result with the results of guardrails in its `_meta`. */
function withResults(result: JsonValue, results: Results): JsonValue {
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return result;
  const { _meta: meta } = result;
  const others = typeof meta === 'object' && meta !== null && !Array.isArray(meta) ? meta : {};
  const shown = JSON.parse(JSON.stringify(hookResults(results))) as JsonValue;
  return { ...result, _meta: { ...others, hook_results: shown } };
}

/** Throws for the first that denies. `what` was judged; default: the request or its answer. */
function refuseDenied(shown: readonly ShownGuardrail[], results: Results, what?: 'call' | 'result'): void {
  const denying = shown.find(isDenying);
  if (denying === undefined) return;
  const failing = denying.checks.find(({ verdict }) => !verdict);
  const refused = what ?? (results.after.includes(denying) ? 'answer' : 'request');
  const reason =
    failing?.error === null || failing === undefined
      ? `its check "${failing?.id ?? ''}" failed`
      : `its check "${failing.id}" could not judge it: ${failing.error.message.replace(/\.$/, '')}`;
  throw new GatewayError(
    'hooks_failed',
    `The guardrail "${denying.id}" refused the ${refused}: ${reason}. "hook_results" say more.`,
    { extra: { hook_results: hookResults(results) } },
  );
}
