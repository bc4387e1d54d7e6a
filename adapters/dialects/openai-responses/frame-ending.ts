import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { encodeResponsesUsage } from './encode-usage.ts';
import { responseFacts } from './stream-reader.ts';

/** Writes why it ended, the usage and the error of an event anew; true when any of them has become another. */
export function changeEnding(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const response = asObject(json.response);
  let changed = false;
  for (const event of events) {
    if (event.type === 'error') changed = changeError(response ?? json, event.message) || changed;
    if (response === undefined) continue;
    if (event.type === 'finish' && event.reason !== responseFacts(response).finishReason) {
      response.status = 'incomplete';
      response.incomplete_details = { reason: event.reason };
      json.type = 'response.incomplete';
      changed = true;
    }
    if (
      event.type === 'usage' &&
      JSON.stringify(event.usage) !== JSON.stringify(decodeOpenAiUsage(response.usage))
    ) {
      response.usage = encodeResponsesUsage(event.usage);
      changed = true;
    }
  }
  return changed;
}

function changeError(holder: JsonObject, message: string): boolean {
  const error = asObject(holder.error) ?? holder;
  if (error.message === message) return false;
  error.message = message;
  if (holder.message !== undefined) holder.message = message;
  return true;
}
