import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { thoughtSignature } from './decode-messages.ts';

interface CallState {
  readonly key: string;
  /** As the wire numbered it. */
  readonly index: number | undefined;
  /** As the wire named it. */
  id: string | undefined;
  opened: boolean;
  custom: boolean;
  /** Arguments that came before the name. */
  pending: string;
  said: string;
}

/** Reads the calls of one choice, whole or in deltas, with indexes, ids and names or without. */
export class ToolCallReader {
  private readonly builder: ChatEventBuilder;
  private readonly newId: (prefix: string) => string;
  private readonly choice: number;
  private readonly calls: CallState[] = [];

  constructor(builder: ChatEventBuilder, choice: number, newId: (prefix: string) => string) {
    this.builder = builder;
    this.choice = choice;
    this.newId = newId;
  }

  /** A call that the client must answer has begun. */
  get hasCalls(): boolean {
    return this.calls.some(({ opened }) => opened);
  }

  /** `tool_calls` and `function_call` of a delta or a message. */
  read(delta: JsonObject): void {
    for (const item of asArray(delta.tool_calls)) {
      const call = asObject(item);
      if (call !== undefined) this.readCall(call);
    }
    const legacy = asObject(delta.function_call);
    if (legacy !== undefined) this.readCall({ index: -1, function: legacy });
  }

  /** The choice is over: a call whose name never came is written all the same, if it says anything. */
  finish(): void {
    for (const call of this.calls) if (!call.opened && call.pending !== '') this.open(call, '');
  }

  private readCall(item: JsonObject): void {
    const custom = asObject(item.custom);
    const definition = asObject(item.function) ?? custom ?? item;
    const name = asText(definition.name);
    const call = this.find(item, name);
    call.id ??= asText(item.id);
    if (definition === custom) call.custom = true;
    if (!call.opened && name !== undefined) this.open(call, name);
    const text = call.custom ? definition.input : definition.arguments;
    const members = asObject(text);
    this.append(call, members === undefined ? (asText(text) ?? '') : stringifyExact(members));
    const signature = thoughtSignature(item);
    if (signature !== undefined && call.opened) this.builder.signature(this.choice, call.key, signature);
  }

  private find(item: JsonObject, name: string | undefined): CallState {
    const index = typeof item.index === 'number' ? item.index : undefined;
    const id = asText(item.id);
    let found: CallState | undefined;
    if (index !== undefined) {
      found = this.calls.findLast((call) => call.index === index);
      // Some hosts number every call 0 and tell them apart by id alone.
      if (found?.id !== undefined && id !== undefined && found.id !== id && name !== undefined)
        found = undefined;
    } else if (id !== undefined) found = this.calls.findLast((call) => call.id === id);
    else if (name === undefined) found = this.calls.at(-1);
    if (found !== undefined) return found;
    const call: CallState = {
      key: `call:${this.calls.length}`,
      index,
      id,
      opened: false,
      custom: false,
      pending: '',
      said: '',
    };
    this.closeComplete();
    this.calls.push(call);
    return call;
  }

  /** A call whose arguments are whole ends when the next one begins, so that writers need not wait with that one. */
  private closeComplete(): void {
    const last = this.calls.at(-1);
    if (last !== undefined && isWhole(last.said)) this.builder.close(this.choice, last.key);
  }

  private open(call: CallState, name: string): void {
    call.opened = true;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, call.key, {
      type: 'tool-call',
      id: call.id ?? this.newId('call_'),
      name,
      kind: call.custom ? 'custom' : 'function',
      arguments: '',
    });
    const { pending } = call;
    call.pending = '';
    this.append(call, pending);
  }

  private append(call: CallState, text: string): void {
    if (text === '') return;
    if (!call.opened) {
      call.pending += text;
      return;
    }
    // A placeholder before the arguments proper; when none come, the builder writes it.
    if (!call.custom && call.said === '' && text === '{}') return;
    // Some hosts repeat the whole arguments in a last event.
    if (!call.custom && text === call.said && isWhole(text)) return;
    call.said += text;
    this.builder.arguments(this.choice, call.key, text);
  }
}

function isWhole(json: string): boolean {
  if (!json.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(json);
    return true;
  } catch {
    return false;
  }
}
