import type { JsonObject } from '../json-reading.ts';
import { asText } from '../json-reading.ts';

/** One output item of a stream while it is written. */
export interface StreamedItem {
  /** Names its parts: hosts reuse output indexes and change ids. */
  readonly key: string;
  readonly type: string;
  id: string | undefined;
  callId: string | undefined;
  /** What has been said of each part, by the part's key. */
  readonly said: Map<string, string>;
  /** Citations written so far, by the part's key. */
  readonly cited: Map<string, number>;
  /** Summary parts of which something was said. */
  readonly summaries: Set<unknown>;
  /** Arguments that came with the item's first event, for hosts that say them nowhere else. */
  readonly early: string;
  /** The provider runs it itself, though it looks like a call. */
  readonly isProviderRun: boolean;
  done: boolean;
}

/** The items of a stream by the index that events name, and in the order of their start. */
export class StreamedItems {
  private readonly byIndex = new Map<unknown, StreamedItem>();
  private readonly order: StreamedItem[] = [];

  /** In the order of their start. */
  get all(): readonly StreamedItem[] {
    return this.order;
  }

  /** The item that an event is about; undefined before its first event. */
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
   * Pairs the items of a final response with those that were streamed: by id, by call id, else the next of the same kind.
   * An item that was not streamed has no partner.
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
