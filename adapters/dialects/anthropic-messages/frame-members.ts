import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { encodeAnthropicUsage } from './encode-usage.ts';
import { usageHolder } from './frame-events.ts';
import { decodeAnthropicUsage } from './message-facts.ts';

/** Writes the reason, the usage and the error of an event anew; true when any of them has become another. `told` is the usage of the stream so far. */
export function writeMembers(json: JsonObject, events: readonly StreamEvent[], told: JsonObject): boolean {
  const before = stringifyExact(json);
  if (json.type === 'error') writeError(json, events);
  else {
    writeFinish(json, events);
    writeUsage(json, events, told);
  }
  return stringifyExact(json) !== before;
}

function writeError(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.find((candidate) => candidate.type === 'error');
  if (event?.type !== 'error') return;
  const error = asObject(json.error);
  if (asText(error?.message) !== event.message) json.error = { ...error, message: event.message };
}

function writeFinish(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.find((candidate) => candidate.type === 'finish');
  const holder = asObject(json.delta) ?? asObject(json.message);
  if (holder === undefined) return;
  if (event?.type === 'finish') holder.stop_reason = event.reason;
  else if (asText(holder.stop_reason) !== undefined) holder.stop_reason = null;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[], told: JsonObject): void {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const holder = usageHolder(json);
  if (holder === undefined) return;
  const now = decodeAnthropicUsage(told);
  if (event?.type === 'usage') {
    if (JSON.stringify(now) !== JSON.stringify(event.usage))
      Object.assign(holder, encodeAnthropicUsage(event.usage));
  } else if (now !== undefined) {
    // The wire wants counts where it has a usage.
    const counts = encodeAnthropicUsage(undefined);
    for (const name of Object.keys(holder)) delete holder[name];
    Object.assign(holder, { input_tokens: counts.input_tokens, output_tokens: counts.output_tokens });
  }
}
