import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { customInput, customNames } from './custom-tool.ts';

interface StreamedCall {
  readonly key: string;
  readonly id: string;
  /** The input of a custom tool is told at once: it stands within the arguments. */
  readonly isCustom: boolean;
  /** What has come and may still turn out to be `null` or nothing; undefined once it is neither. */
  undecided: string | undefined;
}

/**
 * Streams tool calls so that their arguments are one JSON text: a tool without parameters gets `null` or nothing from
 * Cohere, which becomes `{}`.
 */
export class CallArguments {
  private readonly builder: ChatEventBuilder;
  private readonly context: DecodeContext;
  private readonly customs: ReadonlySet<string>;
  private readonly byIndex = new Map<number, StreamedCall>();
  private count = 0;
  private lastIndex = -1;

  constructor(builder: ChatEventBuilder, context: DecodeContext) {
    this.builder = builder;
    this.context = context;
    this.customs = customNames(context.request);
  }

  /** At least one call was made. */
  get any(): boolean {
    return this.count > 0;
  }

  /** A second start of the same call is ignored. */
  start(index: unknown, call: JsonObject): void {
    const at = asCount(index) ?? this.lastIndex + 1;
    const given = asText(call.id);
    const running = this.byIndex.get(at);
    if (running !== undefined && (given === undefined || given === running.id)) return;
    const called = asObject(call.function) ?? {};
    const name = asText(called.name);
    if (name === undefined) return;
    if (running !== undefined) this.close(running);
    const id = given ?? this.context.newId('call_');
    const isCustom = this.customs.has(name);
    const started: StreamedCall = { key: `call:${this.count}`, id, isCustom, undecided: '' };
    this.count++;
    this.lastIndex = at;
    this.byIndex.set(at, started);
    const kind = isCustom ? 'custom' : 'function';
    this.builder.open(0, started.key, { type: 'tool-call', kind, id, name, arguments: '' });
    this.feed(started, called.arguments);
  }

  delta(index: unknown, call: JsonObject): void {
    const running = this.byIndex.get(asCount(index) ?? this.lastIndex);
    if (running !== undefined) this.feed(running, asObject(call.function)?.arguments);
  }

  end(index: unknown): void {
    const running = this.byIndex.get(asCount(index) ?? this.lastIndex);
    if (running !== undefined) this.close(running);
  }

  endAll(): void {
    for (const call of this.byIndex.values()) this.close(call);
  }

  private feed(call: StreamedCall, value: unknown): void {
    const text =
      typeof value === 'string' ? value : asObject(value) === undefined ? '' : JSON.stringify(value);
    if (call.undecided === undefined) return this.builder.arguments(0, call.key, text);
    call.undecided += text;
    if (call.isCustom || 'null'.startsWith(call.undecided.trim())) return;
    this.builder.arguments(0, call.key, call.undecided);
    call.undecided = undefined;
  }

  /** What looked like the beginning of `null` and is not is said after all. */
  private close(call: StreamedCall): void {
    const rest = call.undecided?.trim() ?? '';
    call.undecided = undefined;
    if (rest !== '' && rest !== 'null')
      this.builder.arguments(0, call.key, call.isCustom ? customInput(rest) : rest);
    this.builder.close(0, call.key);
  }
}
