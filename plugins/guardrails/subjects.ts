import type { AnswerText } from '../../core/dialects/dialect.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import { onceIn, type Replacement, type SubjectParts } from '../../core/pipeline/context.ts';
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
export type Judged = Omit<CheckSubject, 'signal'> & SubjectParts & Pick<RequestContext, 'onAbort'>;

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

  get headers(): SubjectParts['headers'] {
    return this.context.headers;
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

  get jsonText(): string {
    return this.context.attempt.body.text;
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

  get jsonText(): string {
    return this.#response.text;
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

/** Texts of a streamed answer as they have come. */
export class StreamedSubject extends AttemptSubject implements Judged {
  readonly phase = 'output';
  readonly json = undefined;
  readonly jsonText = undefined;
  readonly texts: readonly SubjectText[];
  readonly text: string;
  readonly #request: CheckSubject['request'] | undefined;

  /** `request`: the same for all pieces of one stream. */
  constructor(context: AttemptContext, texts: readonly SubjectText[], request?: CheckSubject['request']) {
    super(context);
    this.#request = request;
    this.texts = texts;
    this.text = texts
      .filter(({ type, choice }) => type === 'text' && choice === 0)
      .map(({ text }) => text)
      .join('\n');
  }

  override get request(): CheckSubject['request'] {
    return this.#request ?? super.request;
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

/** The subject as one check sees it: with a signal of its own, and knowing whether it was changed. */
export class AskedSubject implements CheckSubject, SubjectParts {
  isChanged = false;
  readonly #subject: Judged;
  readonly #mayChange: boolean;
  #controller: AbortController | undefined;
  #forget: (() => void) | undefined;
  #isOver = false;

  constructor(subject: Judged, mayChange: boolean) {
    this.#subject = subject;
    this.#mayChange = mayChange;
  }

  get id() {
    return this.#subject.id;
  }

  get phase() {
    return this.#subject.phase;
  }

  get endpoint() {
    return this.#subject.endpoint;
  }

  get provider() {
    return this.#subject.provider;
  }

  get service() {
    return this.#subject.service;
  }

  get model() {
    return this.#subject.model;
  }

  get texts() {
    return this.#subject.texts;
  }

  get text() {
    return this.#subject.text;
  }

  get json() {
    return this.#subject.json;
  }

  get metadata() {
    return this.#subject.metadata;
  }

  get headers() {
    return this.#subject.headers;
  }

  get jsonText() {
    return this.#subject.jsonText;
  }

  get request() {
    return this.#subject.request;
  }

  get caller() {
    return this.#subject.caller;
  }

  get traceId() {
    return this.#subject.traceId;
  }

  get spanId() {
    return this.#subject.spanId;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = (this.#controller = new AbortController());
      this.#forget = this.#subject.onAbort(() => controller.abort());
    }
    return this.#controller.signal;
  }

  header(name: string): string | undefined {
    return this.#subject.header(name);
  }

  setTexts(change: Parameters<Judged['setTexts']>[0]): void {
    this.#requireRight();
    this.#subject.setTexts((text) => {
      const value = change(text);
      if (value !== text.text) this.isChanged = true;
      return value;
    });
  }

  set(...[path, value]: Parameters<Judged['set']>): void {
    this.#requireRight();
    this.#subject.set(path, value);
    this.isChanged = true;
  }

  replaceAll(replacements: Parameters<Judged['replaceAll']>[0]): void {
    this.#requireRight();
    if (replacements.length === 0) return;
    this.#subject.replaceAll(replacements);
    this.isChanged = true;
  }

  once<T>(key: ContextKey<T>, make: () => T): T {
    return this.#subject.once(key, make);
  }

  hold(bytes: number): void {
    this.#subject.hold(bytes);
  }

  /** It has judged, or cannot any more: stops listening for the client's departure. */
  close(): void {
    this.#forget?.();
  }

  /** Time is up: aborts the check's pending calls. */
  end(): void {
    this.#isOver = true;
    this.#controller?.abort(new DOMException('The time of the check is over.', 'TimeoutError'));
  }

  /** Others may judge the subject at the same time, or may have judged it: only a declared, unfinished check may change it. */
  #requireRight(): void {
    if (!this.#mayChange)
      throw new Error('The check changes what it judges and does not declare "changes: true".');
    if (this.#isOver) throw new Error('The check has timed out, and can no longer change anything.');
  }
}
