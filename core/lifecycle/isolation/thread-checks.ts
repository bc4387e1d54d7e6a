import { parseJson, writeJson } from '../../base/json.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { JsonPath, JsonValue, Replacement } from '../../pipeline/context.ts';
import { replaceAllAt, setAt } from '../../pipeline/json-splice.ts';
import type { AnyCheck, AnyPlugin, CheckSubject, Judge, Scope, SubjectText } from '../../pipeline/plugin.ts';
import { headerValue } from '../../ports/header-list.ts';
import { soundCheck } from '../offered-checks.ts';
import {
  type CheckOperation,
  type CheckReturn,
  type SeenParameters,
  type SentSubject,
  type SentTexts,
  type ThreadRequest,
  toldError,
} from './messages.ts';
import { notIsolated } from './thread-context.ts';

/** Created checks with their parameters; the oldest are created again. */
const mostJudges = 2000;
/** Requests of streamed answers, in number and in UTF-16 units of JSON together; the oldest are sent again. */
const mostRequests = 200;
const mostRequestUnits = 4 * 1024 * 1024;
/** Changes of one judgement together, in UTF-16 units of JSON. */
const mostChanged = 64 * 1024 * 1024;

/** The checks of a plugin in its thread. */
export class ThreadChecks {
  readonly #judges = new RecentMap<Judge, number>(mostJudges);
  readonly #requests = new RecentMap<SentTexts, number>(mostRequests);
  readonly #running = new Map<number, ThreadSubject>();

  /** What the functions of the check say of parameters. */
  look(
    plugin: AnyPlugin,
    { check, parameters }: Extract<ThreadRequest, { ask: 'parameters' }>,
  ): SeenParameters {
    const offered = offerOf(plugin, check);
    const found: unknown = offered.check?.(parameters) ?? [];
    if (!Array.isArray(found)) throw new Error('its check must return a list of { path, message }');
    const faults = found.map((fault: unknown) => {
      const { path, message } = Object(fault) as Readonly<Record<string, unknown>>;
      if (typeof path === 'string' && typeof message === 'string') return { path, message };
      throw new Error('its check must return each fault as { path, message }, both texts');
    });
    const reach = faults.length > 0 ? undefined : offered.reach?.(parameters);
    return { faults, reach: typeof reach === 'number' ? reach : undefined };
  }

  async judge(
    id: number,
    call: Extract<ThreadRequest, { ask: 'judge' }>,
    { plugin, scope }: { readonly plugin: AnyPlugin; readonly scope: Scope | undefined },
  ): Promise<CheckReturn> {
    const { subject, parameters } = call;
    const request = subject.phase === 'input' ? subject : this.#requestOf(call);
    if (request === undefined) return { wants: true };
    const offered = offerOf(plugin, call.check);
    let judge = this.#judges.touch(call.judge);
    if (judge === undefined && parameters === undefined) return { wants: true };
    const own = new ThreadSubject(subject, request, offered.changes === true);
    this.#running.set(id, own);
    try {
      if (scope === undefined) throw new Error('the plugin has not been created');
      if (judge === undefined)
        this.#judges.set(call.judge, (judge = soundCheck(offered).create(parameters, scope)));
      const { verdict, data } = await judge(own);
      return {
        operations: own.operations,
        verdict,
        data: data === undefined ? undefined : writeJson(data),
      };
    } catch (thrown) {
      return { operations: own.operations, error: toldError(thrown) };
    } finally {
      this.#running.delete(id);
    }
  }

  /** The request of an answer; undefined when it is not kept any more. */
  #requestOf({ subject, request }: Extract<ThreadRequest, { ask: 'judge' }>): SentTexts | undefined {
    const { request: number } = subject;
    if (number === undefined || request === undefined)
      return request ?? (number === undefined ? undefined : this.#requests.touch(number));
    this.#requests.set(number, request);
    const units = ({ json = '' }: SentTexts): number => json.length;
    const kept = [...this.#requests.entries()];
    let together = kept.reduce((sum, [, one]) => sum + units(one), 0);
    for (const [oldest, one] of kept) {
      if (together <= mostRequestUnits) break;
      this.#requests.delete(oldest);
      together -= units(one);
    }
    return request;
  }

  /** The call is out of time, or the client has left. */
  abort(id: number): void {
    const subject = this.#running.get(id);
    this.#running.delete(id);
    subject?.abort();
  }
}

function offerOf({ offers = [] }: AnyPlugin, index: number): AnyCheck {
  const offered = offers[index];
  if (offered === undefined) throw new Error('The plugin does not offer this check.');
  return offered;
}

/** Texts and JSON as they were sent. */
class ThreadTexts {
  readonly text: string;
  readonly texts: readonly SubjectText[];
  readonly #json: string | undefined;
  #parsed: { readonly value: JsonValue | undefined } | undefined;

  constructor({ texts, text, json }: SentTexts) {
    this.texts = texts;
    this.text = text;
    this.#json = json;
  }

  get json(): JsonValue | undefined {
    this.#parsed ??= { value: this.#json === undefined ? undefined : parseJson(this.#json) };
    return this.#parsed.value;
  }

  get jsonText(): string | undefined {
    return this.#json;
  }
}

/** The subject of a check in its thread, and the check's changes. */
class ThreadSubject implements CheckSubject {
  readonly operations: CheckOperation[] = [];
  readonly id: string;
  readonly phase: CheckSubject['phase'];
  readonly endpoint: CheckSubject['endpoint'];
  readonly provider: string;
  readonly service: string;
  readonly model: string;
  readonly metadata: CheckSubject['metadata'];
  readonly caller: CheckSubject['caller'];
  readonly traceId: string;
  readonly spanId: string;
  readonly request: CheckSubject['request'];
  readonly #headers: SentSubject['headers'];
  readonly #mayChange: boolean;
  #controller: AbortController | undefined;
  #isAborted = false;
  #now: ThreadTexts;
  #changed = 0;

  constructor(sent: SentSubject, request: SentTexts, mayChange: boolean) {
    this.id = sent.id;
    this.phase = sent.phase;
    this.endpoint = sent.endpoint;
    this.provider = sent.provider;
    this.service = sent.service;
    this.model = sent.model;
    this.metadata = sent.metadata;
    this.caller = sent.caller;
    this.traceId = sent.traceId;
    this.spanId = sent.spanId;
    this.#headers = sent.headers;
    this.#mayChange = mayChange;
    this.#now = new ThreadTexts(sent);
    this.request = request === sent ? this : new ThreadTexts(request);
  }

  get texts(): readonly SubjectText[] {
    return this.#now.texts;
  }

  get text(): string {
    return this.#now.text;
  }

  get json(): JsonValue | undefined {
    return this.#now.json;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isAborted) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort();
  }

  header(name: string): string | undefined {
    return headerValue(this.#headers, name);
  }

  setTexts(change: (text: SubjectText) => string): void {
    this.#requireRight();
    const changes = new Map<number, string>();
    const texts = this.texts.map((one, index) => {
      const text: unknown = change(one);
      if (typeof text !== 'string') throw new TypeError('setTexts must be told a text for each text.');
      if (text === one.text) return one;
      this.#count(text.length);
      changes.set(index, text);
      return { ...one, text };
    });
    if (changes.size === 0) return;
    this.operations.push({ texts: changes });
    const replacements = this.texts.flatMap(({ path, text }, index): Replacement[] => {
      const value = changes.get(index);
      return value === undefined || valueAt(this.json, path) !== text ? [] : [{ path, value }];
    });
    const { jsonText } = this.#now;
    const json = jsonText === undefined ? undefined : replaceAllAt(jsonText, replacements);
    this.#now = new ThreadTexts({ texts, text: this.#textOf(texts), json });
  }

  set(path: JsonPath, value: JsonValue): void {
    this.#requireRight();
    const json = this.#jsonOf(value);
    this.operations.push({ set: [...path], value: json });
    const { jsonText } = this.#now;
    if (jsonText !== undefined) this.#takeJson(setAt(jsonText, path, value));
  }

  replaceAll(replacements: readonly Replacement[]): void {
    this.#requireRight();
    if (replacements.length === 0) return;
    const { jsonText } = this.#now;
    if (jsonText !== undefined) this.#takeJson(replaceAllAt(jsonText, replacements));
    const replace = replacements.map(({ path, value }) => ({ path: [...path], value: this.#jsonOf(value) }));
    this.operations.push({ replace });
  }

  once<T>(): T {
    throw notIsolated('subject.once');
  }

  hold(bytes: number): void {
    this.operations.push({ hold: bytes });
  }

  /** The texts at the changed places; others, and those that are not at one place, stay as they were. */
  #takeJson(json: string): void {
    const { json: value } = new ThreadTexts({ texts: [], text: '', json });
    const texts = this.texts.map((one) => {
      const text = valueAt(value, one.path);
      return typeof text === 'string' && valueAt(this.json, one.path) === one.text ? { ...one, text } : one;
    });
    this.#now = new ThreadTexts({ texts, text: this.#textOf(texts), json });
  }

  /** `text` is some of the texts, one below the other: the same ones after the change. */
  #textOf(texts: readonly SubjectText[]): string {
    const { text } = this;
    const before = this.texts;
    for (let first = before.length - 1; first >= 0; first -= 1)
      for (let joined = '', end = first; end < before.length && joined.length <= text.length; end += 1) {
        joined = end === first ? (before[end]?.text ?? '') : `${joined}\n${before[end]?.text ?? ''}`;
        if (joined === text)
          return texts
            .slice(first, end + 1)
            .map((one) => one.text)
            .join('\n');
      }
    return text;
  }

  #jsonOf(value: JsonValue): string {
    const json = writeJson(value) as string | undefined;
    if (json === undefined) throw new TypeError('A check can set only what JSON can hold.');
    this.#count(json.length);
    return json;
  }

  #count(length: number): void {
    this.#changed += length;
    if (this.#changed > mostChanged)
      throw new RangeError(
        `The changes of a check in a thread of its own may have ${mostChanged} characters together.`,
      );
  }

  #requireRight(): void {
    if (!this.#mayChange)
      throw new Error('The check changes what it judges and does not declare "changes: true".');
  }
}

function valueAt(json: JsonValue | undefined, path: JsonPath): unknown {
  let value: unknown = json;
  for (const step of path) value = (Object(value) as Readonly<Record<string | number, unknown>>)[step];
  return value;
}
