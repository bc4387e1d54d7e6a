import type { Readable } from 'node:stream';
import { parseJson } from '../../base/json.ts';
import type { AnswerText } from '../../dialects/dialect.ts';
import type {
  AttemptContext,
  AttemptView,
  JsonPath,
  JsonValue,
  Outcome,
  RequestBody,
  RequestContext,
  ResponseContext,
  ResponseView,
} from '../../pipeline/context.ts';
import { emptyFacts } from '../../pipeline/facts.ts';
import { removeAt, setAt } from '../../pipeline/json-splice.ts';
import { judged } from '../../pipeline/keys.ts';
import { headerValue, withoutHeader } from '../../ports/header-list.ts';
import { heardError, type Operation, type SentContext } from './messages.ts';

/** Error for a member that an isolated plugin cannot have. `what`: subject of the sentence. */
export function notIsolated(what: string): Error {
  return new Error(
    `${what} does not reach a plugin that runs in a thread of its own; remove "isolate" from its entry, or do without`,
  );
}

/** JSON bytes of one side, changed here and reported as operations. */
class SentDocument {
  readonly #on: 'body' | 'attempt' | 'response';
  readonly #operations: Operation[];
  #bytes: Buffer;
  #text: string | undefined;
  #parsed: { readonly value: JsonValue | undefined } | undefined;
  changed = false;

  constructor(on: 'body' | 'attempt' | 'response', bytes: Uint8Array | undefined, operations: Operation[]) {
    this.#on = on;
    this.#operations = operations;
    this.#bytes =
      bytes === undefined ? Buffer.alloc(0) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  get text(): string {
    this.#text ??= this.#bytes.toString('utf8');
    return this.#text;
  }

  get json(): JsonValue | undefined {
    this.#parsed ??= { value: parseJson(this.text) };
    return this.#parsed.value;
  }

  set(path: JsonPath, value: JsonValue): void {
    this.put(setAt(this.text, path, value));
    this.#operations.push({ on: this.#on, set: path, value });
  }

  remove(path: JsonPath): void {
    this.put(removeAt(this.text, path));
    this.#operations.push({ on: this.#on, remove: path });
  }

  /** Takes over a text that another operation reports. */
  put(text: string): void {
    this.#text = text;
    this.#bytes = Buffer.from(text, 'utf8');
    this.#parsed = undefined;
    this.changed = true;
  }
}

/** The context of a hook in its thread, and the hook's changes. */
export class ThreadContext {
  readonly operations: Operation[] = [];
  readonly #sent: SentContext;
  readonly #body: SentDocument;
  #verdict: 'passed' | 'changed' | 'skipped' | undefined;

  constructor(sent: SentContext) {
    this.#sent = sent;
    this.#body = new SentDocument('body', sent.body.bytes, this.operations);
  }

  /** The operations since the last call. */
  take(): Operation[] {
    return this.operations.splice(0);
  }

  request(): RequestContext {
    return this.#context();
  }

  attempt(): AttemptContext {
    const { attempt } = this.#sent;
    if (attempt === undefined) throw new Error('There is no attempt.');
    const document = new SentDocument('attempt', attempt.body.bytes, this.operations);
    const view: AttemptView = {
      ...attempt,
      cache: undefined,
      guardrails: undefined,
      body: Object.assign(this.#bodyOf(document, attempt.body.bytes !== undefined), {
        replaceAll(replacements: readonly { readonly path: JsonPath; readonly value: JsonValue }[]) {
          for (const { path, value } of replacements) document.set(path, value);
        },
        hold: () => undefined,
      }),
      translates: () => {
        throw notIsolated('attempt.translates');
      },
      onAbandon: () => {
        throw notIsolated('attempt.onAbandon');
      },
    };
    return Object.defineProperties(this.#context(), {
      attempt: { value: view },
      dialect: {
        get: () => {
          throw notIsolated('context.dialect');
        },
      },
    }) as AttemptContext;
  }

  response(): ResponseContext {
    const { response } = this.#sent;
    if (response === undefined) throw new Error('There is no answer.');
    const { operations } = this;
    const document = new SentDocument('response', response.bytes, operations);
    let { status } = response;
    let texts: readonly AnswerText[] = response.texts;
    const setTexts = (change: (part: AnswerText) => string): void => {
      const changes = new Map<number, string>();
      texts = texts.map((part, index) => {
        const text = change(part);
        if (text === part.text) return part;
        changes.set(index, text);
        return { ...part, text };
      });
      if (changes.size > 0) operations.push({ texts: changes });
    };
    const view: ResponseView = {
      get status() {
        return status;
      },
      set status(next) {
        status = next;
        operations.push({ status: next });
      },
      headers: response.headers,
      source: response.source,
      streamed: response.streamed,
      get bytes() {
        return document.bytes;
      },
      get text() {
        return document.text;
      },
      get json() {
        return document.json;
      },
      get texts() {
        return texts;
      },
      set: (path, value) => document.set(path, value),
      remove: (path) => document.remove(path),
      setTexts,
      setText(part, text) {
        const place = part.path.join('/');
        setTexts((one) => (one.path.join('/') === place ? text : one.text));
      },
      setHeader: (header, value) => void operations.push({ header, value }),
      removeHeader: (header) => void operations.push({ header, value: undefined }),
    };
    return Object.defineProperties(this.#context(), { response: { value: view } }) as ResponseContext;
  }

  outcome(): Outcome {
    const { outcome } = this.#sent;
    if (outcome === undefined) throw new Error('There is no outcome.');
    const { error, responseBody } = outcome;
    return Object.defineProperties(
      {
        ...outcome,
        error: error && heardError(error),
        requestBody: this.#sent.body.bytes && this.#body.bytes,
        responseBody: responseBody && Buffer.from(responseBody),
        requestIsJson: this.#body.json !== undefined,
        responseIsJson: false,
      },
      {
        price: {
          get: () => {
            throw notIsolated('outcome.price');
          },
        },
      },
    ) as Outcome;
  }

  #context(): RequestContext {
    const sent = this.#sent;
    const { operations } = this;
    const document = this.#body;
    const body = this.#bodyOf(document, sent.body.bytes !== undefined, sent.body.present);
    const setVerdict = (verdict: 'passed' | 'changed' | 'skipped' | undefined): void => {
      this.#verdict = verdict;
      operations.push({ judged: verdict });
    };
    const verdict = (): unknown => this.#verdict;
    let { headers } = sent;
    const keys = (): Error => notIsolated('A key of the context other than "judged"');
    return {
      id: sent.id,
      startedAt: sent.startedAt,
      method: sent.method,
      path: sent.path,
      originalPath: sent.originalPath,
      query: sent.query,
      get headers() {
        return headers;
      },
      remoteAddress: sent.remoteAddress,
      endpoint: sent.endpoint,
      generation: sent.generation,
      facts: { ...emptyFacts(), ...sent.facts },
      body,
      aborted: false,
      get json() {
        return document.json;
      },
      get models() {
        if (sent.models === undefined) throw notRead('models', 'request.json');
        return sent.models;
      },
      get conversation() {
        if (sent.texts === undefined) throw notRead('conversation', 'request.text');
        if (document.changed)
          throw new Error('Read context.conversation before you change the body: a thread decodes nothing.');
        return { texts: sent.texts };
      },
      header: (name) => headerValue(headers, name),
      service: (name) => sent.service[name],
      serviceNames: () => Object.keys(sent.service),
      get<T>(key: object) {
        if (key !== judged) throw keys();
        return verdict() as T | undefined;
      },
      set(key: object, value) {
        if (key !== judged) throw keys();
        setVerdict(value as 'passed' | undefined);
      },
      setHeader(requestHeader, value) {
        const lower = requestHeader.toLowerCase();
        headers = withoutHeader(headers, lower);
        if (value !== undefined) headers = [...headers, lower, value];
        operations.push({ requestHeader, value });
      },
      addResponseHeader: (add, value) => void operations.push({ add, value }),
      replaceResponseHeader: (replace, value) => void operations.push({ replace, value }),
      become: () => {
        throw notIsolated('context.become');
      },
      divert: () => {
        throw notIsolated('context.divert');
      },
      onAbort: () => {
        throw notIsolated('context.onAbort');
      },
    };
  }

  #bodyOf(document: SentDocument, loaded: boolean, present = loaded): RequestBody {
    return {
      present,
      loaded,
      contentEncoding: undefined,
      get changed() {
        return document.changed;
      },
      load: () => (loaded ? Promise.resolve() : Promise.reject(notRead('body', 'request.body'))),
      get bytes() {
        return document.bytes;
      },
      get text() {
        return document.text;
      },
      get json() {
        return document.json;
      },
      get outgoing() {
        return document.bytes;
      },
      set: (path, value) => document.set(path, value),
      remove: (path) => document.remove(path),
      stream: (): Readable => {
        throw notIsolated('body.stream');
      },
    };
  }
}

function notRead(member: string, part: string): Error {
  return new Error(
    `context.${member} is sent to a plugin in a thread of its own only when its capabilities.reads names "${part}"`,
  );
}
