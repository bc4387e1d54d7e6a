import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import { watch, type EventReader, type Watch } from '../frame-scanner.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';

/** The members for which a frame is parsed once the first token has been seen. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('error', 'anything but null'),
  // The event that ends a stream carries the whole response; it may lack the usage.
  watch('response', 'object'),
];

const finalEvents: ReadonlySet<unknown> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
]);

/** Facts of a response object, complete or as the events of a stream carry it. */
export function responseFacts(response: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = decodeOpenAiUsage(response.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(response.model);
  if (model !== undefined) facts.model = model;
  const status = asText(response.status);
  if (status !== undefined && status !== 'in_progress' && status !== 'queued') {
    facts.finishReason = asText(asObject(response.incomplete_details)?.reason) ?? status;
  }
  const errorMessage = openAiErrorMessage(response);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** Learns usage, model, how it ended and errors from the events of a Responses stream. */
export class ResponsesStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  ended = false;

  read(json: JsonObject, event: string): boolean {
    const type = asText(json.type) ?? event;
    const response = asObject(json.response);
    if (response !== undefined) Object.assign(this.facts, responseFacts(response));
    const errorMessage = openAiErrorMessage(json, event);
    if (errorMessage !== undefined) this.facts.errorMessage = errorMessage;
    if (finalEvents.has(type)) this.ended = true;
    return type.endsWith('.delta') && asText(json.delta) !== undefined;
  }
}
