import type { AnswerText } from '../../core/dialects/dialect.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import { onceIn, type Replacement } from '../../core/pipeline/context.ts';
import type {
  AttemptContext,
  CheckSubject,
  ContextKey,
  JsonPath,
  JsonValue,
  RequestContext,
  ResponseView,
  SubjectText,
} from '../../core/pipeline/plugin.ts';

/** A subject without the members of a single judgement. */
export type Judged = Omit<CheckSubject, 'signal'> & Pick<RequestContext, 'onAbort'>;

/** Roles whose texts are instructions, not the message that a request is about. */
const instructing: ReadonlySet<string> = new Set(['system', 'developer']);

/** A subject with the members that its request has. */
export abstract class ContextSubject<C extends RequestContext = RequestContext> {
  abstract readonly phase: CheckSubject['phase'];
  protected readonly context: C;

  constructor(context: C) {
    this.context = context;
  }

  get id(): string {
    return this.context.id;
  }

  get endpoint(): CheckSubject['endpoint'] {
    return this.context.endpoint.id;
  }

  get metadata(): CheckSubject['metadata'] {
    return this.context.facts.metadata;
  }

  get caller(): CheckSubject['caller'] {
    return this.context.get(callerKey);
  }

  get traceId(): string {
    return this.context.facts.traceId;
  }

  get spanId(): string {
    return this.context.facts.spanId;
  }

  header(name: string): string | undefined {
    return this.context.header(name);
  }

  once<T>(key: ContextKey<T>, make: () => T): T {
    return onceIn(this.context, key, make);
  }

  onAbort(run: () => void): () => void {
    return this.context.onAbort(run);
  }
}

abstract class AttemptSubject extends ContextSubject<AttemptContext> {
  get provider(): string {
    return this.context.attempt.provider;
  }

  get service(): string {
    return this.context.attempt.aiService;
  }

  get model(): string {
    return this.context.facts.modelRequested;
  }

  get request(): CheckSubject['request'] {
    return new RequestSubject(this.context);
  }

  hold(bytes: number): void {
    this.context.attempt.body.hold(bytes);
  }
}

/** A request as the present attempt sends it. */
export class RequestSubject extends AttemptSubject implements Judged {
  readonly phase = 'input';
  #texts: readonly SubjectText[] | undefined;
  #text: string | undefined;

  get json(): JsonValue | undefined {
    const { body } = this.context.attempt;
    return body.loaded ? body.json : undefined;
  }

  get texts(): readonly SubjectText[] {
    return (this.#texts ??= this.#read());
  }

  get text(): string {
    return (this.#text ??= this.#lastMessage());
  }

  #lastMessage(): string {
    const { texts } = this;
    const last = texts.findLast(({ role }) => !instructing.has(role)) ?? texts.at(-1);
    if (last === undefined) return '';
    const isOfMessage = ({ path }: SubjectText): boolean =>
      path[0] === last.path[0] && path[1] === last.path[1];
    const parts = texts.filter(isOfMessage);
    return parts.length === 1 ? last.text : parts.map(({ text }) => text).join('\n');
  }

  setTexts(change: (text: SubjectText) => string): void {
    const { body } = this.context.attempt;
    const changed = this.texts.flatMap((one) => {
      const value = change(one);
      return value === one.text ? [] : [{ path: one.path, value }];
    });
    if (changed.length === 0) return;
    body.replaceAll(changed);
    this.#texts = this.#text = undefined;
  }

  set(path: JsonPath, value: JsonValue): void {
    this.context.attempt.body.set(path, value);
    this.#texts = this.#text = undefined;
  }

  replaceAll(replacements: readonly Replacement[]): void {
    this.context.attempt.body.replaceAll(replacements);
    this.#texts = this.#text = undefined;
  }

  #read(): readonly SubjectText[] {
    const { attempt, dialect, endpoint } = this.context;
    const { body } = attempt;
    if (!body.loaded) return [];
    const { texts } = body.changed
      ? dialect.decodeConversation(endpoint.id, body.json)
      : this.context.conversation;
    return texts.map(({ role, text, path }) => ({ role, type: 'text', text, path, choice: 0 }));
  }
}

/** A complete answer, before it leaves. */
export class AnswerSubject extends AttemptSubject implements Judged {
  readonly phase = 'output';
  readonly #response: ResponseView;

  constructor(context: AttemptContext, response: ResponseView) {
    super(context);
    this.#response = response;
  }

  get json(): JsonValue | undefined {
    return this.#response.json;
  }

  get texts(): readonly SubjectText[] {
    return this.#response.texts.map(ofAnswer);
  }

  get text(): string {
    const said = this.#response.texts.filter(({ type, choice }) => type === 'text' && choice === 0);
    return said.map(({ text }) => text).join('\n');
  }

  setTexts(change: (text: SubjectText) => string): void {
    this.#response.setTexts((part) => change(ofAnswer(part)));
  }

  set(path: JsonPath, value: JsonValue): void {
    this.#response.set(path, value);
  }

  replaceAll(replacements: readonly Replacement[]): void {
    for (const { path, value } of replacements) this.#response.set(path, value);
  }
}

/** Texts of a streamed answer, as far as they have come. */
export class StreamedSubject extends AttemptSubject implements Judged {
  readonly phase = 'output';
  readonly json = undefined;
  readonly texts: readonly SubjectText[];
  readonly text: string;

  constructor(context: AttemptContext, texts: readonly SubjectText[]) {
    super(context);
    this.texts = texts;
    this.text = texts
      .filter(({ type, choice }) => type === 'text' && choice === 0)
      .map(({ text }) => text)
      .join('\n');
  }

  setTexts(): void {
    throw new Error('A streamed answer is changed only where it is held.');
  }

  set(): void {
    this.setTexts();
  }

  replaceAll(): void {
    this.setTexts();
  }
}

function ofAnswer({ type, text, path, choice }: AnswerText): SubjectText {
  return { role: 'assistant', type, text, path, choice };
}
