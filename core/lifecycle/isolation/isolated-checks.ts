import type { TSchema } from 'typebox';
import { RecentMap } from '../../base/recent-map.ts';
import { parseJson, writeJson } from '../../base/json.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { Unanswered } from '../../organisation/guardrails.ts';
import type { JsonValue, SubjectParts } from '../../pipeline/context.ts';
import type { AnyCheck, CheckResult, CheckSubject, Judge } from '../../pipeline/plugin.ts';
import type { Clock } from '../../ports/clock.ts';
import type { IsolatedThread } from './isolated-thread.ts';
import {
  type CheckOperation,
  type CheckReturn,
  type DescribedCheck,
  heardError,
  type SeenParameters,
  type SentSubject,
  type SentTexts,
  type ThreadRequest,
} from './messages.ts';

/** Where the checks of an isolated plugin run. */
interface CheckThreads {
  /** The thread of the plugin's first place in the pipelines. Rejects while there is none. */
  running(): Promise<IsolatedThread>;
  /** Asks that thread, or one that lives only for such questions. */
  ask<T>(call: ThreadRequest): Promise<T>;
  readonly clock: Clock;
}

/** Parameters whose functions have been run, of all checks of a plugin. */
const mostSeen = 10_000;
/** A failure to look at parameters is told for this long, in milliseconds; then they are looked at again. */
const failureMs = 1000;

interface Failure {
  readonly reason: string;
  /** On the monotonic clock. */
  readonly until: number;
}

/** The checks that a plugin in a thread of its own offers: what is asked of them is asked of its thread. */
export class IsolatedChecks {
  readonly #threads: CheckThreads;
  readonly #seen = new RecentMap<SeenParameters | Failure>(mostSeen);
  readonly #open = new Map<string, Promise<void>>();
  /** Requests whose answers are judged piece by piece: undefined until the second piece. */
  readonly #requests = new WeakMap<object, number | undefined>();
  #judges = 0;
  #lastRequest = 0;

  constructor(threads: CheckThreads) {
    this.#threads = threads;
  }

  /** The definition of the check with this index. */
  definition(described: DescribedCheck, index: number): AnyCheck {
    const { hasCheck, hasReach, schema, ...told } = described;
    return {
      ...told,
      schema: JSON.parse(schema) as TSchema,
      ...(hasCheck && { check: (parameters) => this.#look(described, index, parameters).faults }),
      ...(hasReach && { reach: (parameters) => this.#look(described, index, parameters).reach ?? Infinity }),
      create: (parameters) => this.#judge(index, parameters),
    };
  }

  /** Throws `Unanswered` until the plugin's code has seen the parameters, and for a while when it could not. */
  #look({ id }: DescribedCheck, check: number, parameters: unknown): SeenParameters {
    const key = `${check} ${writeJson(parameters)}`;
    const known = this.#seen.touch(key);
    if (known !== undefined && 'faults' in known) return known;
    if (known !== undefined && this.#threads.clock.monotonic() < known.until) throw unseen(id, known.reason);
    let asked = this.#open.get(key);
    if (asked === undefined) {
      asked = this.#ask(key, check, parameters).finally(() => this.#open.delete(key));
      this.#open.set(key, asked);
    }
    throw new Unanswered(asked);
  }

  async #ask(key: string, check: number, parameters: unknown): Promise<void> {
    const { clock } = this.#threads;
    try {
      this.#seen.set(key, await this.#threads.ask<SeenParameters>({ ask: 'parameters', check, parameters }));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#seen.set(key, { reason, until: clock.monotonic() + failureMs });
    }
  }

  #judge(check: number, parameters: unknown): Judge {
    const judge = ++this.#judges;
    const place = {};
    return async (subject) => {
      const { signal } = subject;
      const thread = await this.#threads.running();
      const of = subject.phase === 'input' ? undefined : subject.request;
      const isKnown = of === undefined || thread.has.has(of);
      const call = {
        ask: 'judge' as const,
        check,
        judge,
        parameters: thread.has.has(place) ? undefined : parameters,
        subject: this.#sent(subject, of),
        request: isKnown ? undefined : sentTexts(of),
      };
      let answer = await thread.call<CheckReturn>(call, signal);
      // The thread keeps the latest of them.
      if ('wants' in answer)
        answer = await thread.call<CheckReturn>(
          { ...call, parameters, request: of && sentTexts(of) },
          signal,
        );
      thread.has.add(place);
      if (of !== undefined && call.subject.request !== undefined) thread.has.add(of);
      return resultOf(answer, subject);
    };
  }

  #sent(subject: CheckSubject & Partial<SubjectParts>, request: object | undefined): SentSubject {
    return {
      ...sentTexts(subject),
      id: subject.id,
      phase: subject.phase,
      endpoint: subject.endpoint,
      provider: subject.provider,
      service: subject.service,
      model: subject.model,
      metadata: subject.metadata,
      caller: subject.caller,
      traceId: subject.traceId,
      spanId: subject.spanId,
      headers: subject.headers ?? [],
      request: request && this.#numberOf(request),
    };
  }

  /** Most requests come once: the thread need not keep them. */
  #numberOf(request: object): number | undefined {
    const isKnown = this.#requests.has(request);
    let number = this.#requests.get(request);
    if (number === undefined && isKnown) number = ++this.#lastRequest;
    this.#requests.set(request, number);
    return number;
  }
}

type Texts = Pick<CheckSubject, 'texts' | 'text' | 'json'> & Partial<Pick<SubjectParts, 'jsonText'>>;

function sentTexts(of: Texts): SentTexts {
  const { texts, text, json } = of;
  return {
    texts,
    text,
    json: json === undefined ? undefined : (of.jsonText ?? writeJson(json)),
  };
}

/** Makes the changes of the check, also those before its failure, and returns its verdict. */
function resultOf(answer: CheckReturn, subject: CheckSubject): CheckResult {
  if ('wants' in answer) throw new Error('its thread has lost the parameters');
  for (const operation of answer.operations) apply(operation, subject);
  if ('error' in answer) throw heardError(answer.error);
  const { verdict, data } = answer;
  return data === undefined ? { verdict } : { verdict, data: valueOf(data) };
}

function apply(operation: CheckOperation, subject: CheckSubject): void {
  if ('texts' in operation) {
    let index = 0;
    subject.setTexts(({ text }) => operation.texts.get(index++) ?? text);
  } else if ('set' in operation) {
    subject.set(operation.set, valueOf(operation.value));
  } else if ('replace' in operation) {
    subject.replaceAll(operation.replace.map(({ path, value }) => ({ path, value: valueOf(value) })));
  } else subject.hold(operation.hold);
}

function valueOf(json: string): JsonValue {
  return parseJson(json) ?? null;
}

function unseen(id: string, reason: string): GatewayError {
  return new GatewayError(
    'plugin_unavailable',
    `The plugin that offers the check "${id}" could not look at its parameters: ${reason}.`,
    { headers: ['retry-after', '1'] },
  );
}
