import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { carriedContent, outputItem, summarySeparator, textAnnotation } from './answer.ts';

/** One output item of a stream, until it is complete. */
interface StreamedItem {
  /** Prefix of its part keys: hosts reuse output indexes and change ids. */
  readonly key: string;
  readonly type: string;
  id: string | undefined;
  callId: string | undefined;
  /** Emitted text of each part, by the part's key. */
  readonly said: Map<string, string>;
  /** Citations written so far, by the part's key. */
  readonly cited: Map<string, number>;
  /** Summary parts with emitted text. */
  readonly summaries: Set<unknown>;
  /** Arguments in the item's first event, for hosts that send them nowhere else. */
  readonly early: string;
  /** The provider runs it itself, although it looks like a call. */
  readonly isProviderRun: boolean;
  done: boolean;
}

/** The items of a stream by their event index, and in the order of their start. */
class StreamedItems {
  private readonly byIndex = new Map<unknown, StreamedItem>();
  private readonly order: StreamedItem[] = [];

  /** In the order of their start. */
  get all(): readonly StreamedItem[] {
    return this.order;
  }

  /** The item of an event; undefined before its first event. */
  of(event: JsonObject): StreamedItem | undefined {
    const index = event.output_index;
    if (index !== undefined) return this.byIndex.get(index);
    const id = asText(event.item_id);
    return this.order.findLast((one) => id === undefined || one.id === id);
  }

  /** A new item under the index that the event names. */
  begin(event: JsonObject, item: JsonObject, early: string, isProviderRun: boolean): StreamedItem {
    const begun: StreamedItem = {
      key: String(this.order.length),
      type: asText(item.type) ?? '',
      id: asText(item.id),
      callId: asText(item.call_id),
      said: new Map(),
      cited: new Map(),
      summaries: new Set(),
      early,
      isProviderRun,
      done: false,
    };
    this.order.push(begun);
    this.byIndex.set(event.output_index ?? `unnumbered:${begun.key}`, begun);
    return begun;
  }

  /**
   * Pairs the items of a final response with the streamed ones: by id, by call id, else the next of the same kind. An
   * item that was not streamed has no partner.
   */
  pair(output: readonly JsonObject[]): readonly (StreamedItem | undefined)[] {
    const left = new Set(this.order);
    const take = (matches: (one: StreamedItem) => boolean): StreamedItem | undefined => {
      for (const one of left) {
        if (!matches(one)) continue;
        left.delete(one);
        return one;
      }
      return undefined;
    };
    const pairs = output.map((item) => {
      const id = asText(item.id);
      const callId = asText(item.call_id);
      return (
        (id === undefined ? undefined : take((one) => one.id === id)) ??
        (callId === undefined ? undefined : take((one) => one.callId === callId && one.type === item.type))
      );
    });
    return pairs.map((pair, i) => pair ?? take((one) => one.type === output[i]?.type));
  }
}

/** A text that its end event repeats. */
interface WholeText {
  readonly kind: 'text' | 'refusal';
  readonly text: string;
  readonly logprobs: unknown;
}

/**
 * Converts the output items of a stream into events. The same content arrives several times (deltas, the finished part,
 * the finished item, the final response); each character is emitted once, from its first occurrence.
 */
export class ItemEvents {
  /** The answer holds a call that the client must answer. */
  hasCalls = false;
  /** The tools of the request, in the provider's copy. */
  tools: unknown = undefined;
  private readonly items = new StreamedItems();
  private readonly builder: ChatEventBuilder;
  private readonly newId: (prefix: string) => string;
  /** Complete parts: they end when the next one starts, because a signature may follow them. */
  private readonly ending: string[] = [];

  constructor(builder: ChatEventBuilder, newId: (prefix: string) => string) {
    this.builder = builder;
    this.newId = newId;
  }

  added(event: JsonObject): void {
    const item = asObject(event.item);
    if (item === undefined) return;
    const before = this.items.of(event);
    const isSame = before?.done === false && before.type === item.type && before.id === asText(item.id);
    if (!isSame) this.begin(event, item);
  }

  done(event: JsonObject): void {
    const item = asObject(event.item);
    if (item === undefined) return;
    const before = this.items.of(event);
    const isKnown =
      before !== undefined && before.type === item.type && (!before.done || before.id === asText(item.id));
    this.finishItem(isKnown ? before : this.begin(event, item), item);
  }

  /** Emits content of the final response that was not streamed. */
  reconcile(response: JsonObject): void {
    const output = asArray(response.output)
      .map(asObject)
      .filter((item) => item !== undefined);
    this.items.pair(output).forEach((streamed, i) => {
      const item = output[i] as JsonObject;
      this.finishItem(streamed ?? this.begin({}, item), item);
    });
    for (const item of this.items.all) if (!item.done) this.completeArguments(item, item.early);
  }

  /** A delta of a text or a refusal. */
  textDelta(event: JsonObject, kind: 'text' | 'refusal'): void {
    const item = this.messageOf(event);
    const text = typeof event.delta === 'string' ? event.delta : '';
    const key = this.contentKey(item, event);
    this.openText(key, kind, undefined);
    this.say(item, key, text);
    this.builder.text(0, key, text, outputItem.logprobs(event.logprobs));
  }

  /** A finished text or content part. `text` is the whole text. */
  textDone(event: JsonObject, kind: 'text' | 'refusal', text: unknown): void {
    const item = this.messageOf(event);
    if (typeof text !== 'string') return;
    this.completeText(item, this.contentKey(item, event), { kind, text, logprobs: event.logprobs });
  }

  partDone(event: JsonObject): void {
    const part = asObject(event.part) ?? {};
    if (part.type !== 'output_text' && part.type !== 'refusal') return;
    const kind = part.type === 'refusal' ? 'refusal' : 'text';
    this.textDone(event, kind, kind === 'refusal' ? part.refusal : part.text);
    const item = this.messageOf(event);
    const key = this.contentKey(item, event);
    this.cite(item, key, asArray(part.annotations));
    this.endLater(key);
  }

  annotation(event: JsonObject): void {
    const item = this.messageOf(event);
    const key = this.contentKey(item, event);
    this.openText(key, 'text', undefined);
    const citation = textAnnotation.decode(event.annotation);
    if (citation === undefined) return;
    item.cited.set(key, (item.cited.get(key) ?? 0) + 1);
    this.builder.citation(0, key, citation);
  }

  /** A piece of a summary (numbered by `summary_index`) or of the thoughts themselves. */
  reasoning(event: JsonObject, kind: 'summary' | 'thought', text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    const item = this.items.of(event) ?? this.begin(event, { type: 'reasoning', id: event.item_id });
    const key = `${item.key}.${kind}`;
    this.openReasoning(item, key, kind);
    const part = kind === 'summary' ? event.summary_index : undefined;
    const opensNext = kind === 'summary' && item.summaries.size > 0 && !item.summaries.has(part);
    item.summaries.add(part);
    const piece = opensNext ? summarySeparator + text : text;
    this.say(item, key, piece);
    this.builder.reasoning(0, key, piece);
  }

  /** A finished summary part: emitted only when it had no delta. */
  summaryDone(event: JsonObject, text: unknown): void {
    const item = this.items.of(event);
    if (item?.summaries.has(event.summary_index) !== true) this.reasoning(event, 'summary', text);
  }

  argumentsDelta(event: JsonObject): void {
    const item = this.items.of(event);
    if (item === undefined || typeof event.delta !== 'string' || item.isProviderRun) return;
    this.say(item, item.key, event.delta);
    this.builder.arguments(0, item.key, event.delta);
  }

  argumentsDone(event: JsonObject, text: unknown): void {
    const item = this.items.of(event);
    if (item !== undefined && typeof text === 'string') this.completeArguments(item, text);
  }

  private begin(event: JsonObject, item: JsonObject): StreamedItem {
    const isCall = item.type === 'function_call' || item.type === 'custom_tool_call';
    const providerRun = outputItem.isProviderRun(item, this.tools);
    const begun = this.items.begin(event, item, isCall ? outputItem.callArguments(item) : '', providerRun);
    if (isCall && !providerRun) {
      this.hasCalls = true;
      this.endDue();
      this.builder.open(0, begun.key, outputItem.callHead(item, this.newId));
    }
    return begun;
  }

  private finishItem(streamed: StreamedItem, item: JsonObject): void {
    if (streamed.done) return;
    streamed.done = true;
    streamed.id = asText(item.id);
    streamed.callId = asText(item.call_id);
    if (item.type === 'message') this.finishMessage(streamed, item);
    else if (item.type === 'reasoning') this.finishReasoning(streamed, item);
    else if ((item.type === 'function_call' || item.type === 'custom_tool_call') && !streamed.isProviderRun) {
      this.completeArguments(streamed, outputItem.callArguments(item));
      this.completeArguments(streamed, streamed.early);
      this.endLater(streamed.key);
    } else {
      this.endDue();
      this.builder.open(0, streamed.key, outputItem.imagePart(item) ?? outputItem.provider(item));
      this.builder.close(0, streamed.key);
    }
  }

  private finishMessage(streamed: StreamedItem, item: JsonObject): void {
    const extras = outputItem.phaseExtras(item.phase);
    const contents = asArray(item.content).map(asObject);
    outputItem.messageParts(item).forEach((part, i) => {
      const key = `${streamed.key}.${i}`;
      if (part.type === 'text' || part.type === 'refusal') {
        const logprobs = contents[i]?.logprobs;
        this.completeText(streamed, key, { kind: part.type, text: part.text, logprobs }, extras);
        this.cite(streamed, key, asArray(contents[i]?.annotations));
      } else this.builder.open(0, key, part);
      this.endLater(key);
    });
  }

  private finishReasoning(streamed: StreamedItem, item: JsonObject): void {
    const encrypted = asText(item.encrypted_content);
    const carried = encrypted === undefined ? undefined : carriedContent.decode(encrypted);
    const key = `${streamed.key}.summary`;
    if (carried?.kind === 'redacted') {
      this.endDue();
      this.builder.open(0, key, { type: 'reasoning', text: '', redacted: carried.data });
      this.builder.close(0, key);
      return;
    }
    if (carried !== undefined) {
      const last = this.ending.at(-1);
      if (last !== undefined) this.builder.signature(0, last, carried.signature);
      return;
    }
    const thoughtKey = `${streamed.key}.thought`;
    this.completeReasoning(streamed, thoughtKey, 'thought', outputItem.thoughtText(item));
    this.completeReasoning(streamed, key, 'summary', outputItem.summaryText(item));
    const hasSummary = this.builder.isOpen(0, key);
    const hasThought = this.builder.isOpen(0, thoughtKey);
    if (encrypted !== undefined) {
      if (!hasSummary && !hasThought) this.openReasoning(streamed, key, 'summary');
      this.builder.signature(0, hasThought && !hasSummary ? thoughtKey : key, encrypted);
    }
    this.builder.close(0, thoughtKey);
    this.builder.close(0, key);
  }

  private completeReasoning(
    item: StreamedItem,
    key: string,
    kind: 'summary' | 'thought',
    whole: string,
  ): void {
    const rest = restOf(whole, item.said.get(key) ?? '');
    if (rest === '') return;
    this.openReasoning(item, key, kind);
    this.say(item, key, rest);
    this.builder.reasoning(0, key, rest);
  }

  private completeText(item: StreamedItem, key: string, whole: WholeText, extras?: Extras): void {
    this.openText(key, whole.kind, extras);
    const said = item.said.get(key) ?? '';
    const rest = restOf(whole.text, said);
    this.say(item, key, rest);
    this.builder.text(
      0,
      key,
      rest,
      said === '' && rest !== '' ? outputItem.logprobs(whole.logprobs) : undefined,
    );
  }

  private completeArguments(item: StreamedItem, whole: string): void {
    if (item.isProviderRun) return;
    const rest = restOf(whole, item.said.get(item.key) ?? '');
    this.say(item, item.key, rest);
    this.builder.arguments(0, item.key, rest);
  }

  private cite(item: StreamedItem, key: string, annotations: readonly unknown[]): void {
    const before = item.cited.get(key) ?? 0;
    if (annotations.length <= before) return;
    item.cited.set(key, annotations.length);
    for (const value of annotations.slice(before)) {
      const citation = textAnnotation.decode(value);
      if (citation !== undefined) this.builder.citation(0, key, citation);
    }
  }

  private openText(key: string, type: 'text' | 'refusal', extras: Extras | undefined): void {
    if (this.builder.isOpen(0, key)) return;
    this.endDue();
    this.builder.open(0, key, extras === undefined ? { type, text: '' } : { type, text: '', extras });
  }

  private openReasoning(item: StreamedItem, key: string, kind: 'summary' | 'thought'): void {
    if (this.builder.isOpen(0, key)) return;
    this.endDue();
    const itemId = item.id === undefined ? {} : { itemId: item.id };
    const summary = kind === 'summary' ? { summary: true } : {};
    this.builder.open(0, key, { type: 'reasoning', text: '', ...itemId, ...summary });
  }

  private messageOf(event: JsonObject): StreamedItem {
    return this.items.of(event) ?? this.begin(event, { type: 'message', id: event.item_id });
  }

  private contentKey(item: StreamedItem, event: JsonObject): string {
    return `${item.key}.${typeof event.content_index === 'number' ? event.content_index : 0}`;
  }

  private say(item: StreamedItem, key: string, text: string): void {
    if (text !== '') item.said.set(key, (item.said.get(key) ?? '') + text);
  }

  private endLater(key: string): void {
    if (!this.ending.includes(key)) this.ending.push(key);
  }

  private endDue(): void {
    for (const key of this.ending.splice(0)) this.builder.close(0, key);
  }
}

/** The remainder of a whole text after the emitted text; empty when it does not start with that. */
function restOf(whole: string, said: string): string {
  return whole.length > said.length && whole.startsWith(said) ? whole.slice(said.length) : '';
}
