import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { ChunkDecoder } from './chunk-decoder.ts';

/** A complete answer of any host of the family: read as the one chunk of a stream that says it all. */
export function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  return decodeAnswerObject(parseAnswer(body), context);
}

/** The same of a body that has been parsed. */
export function decodeAnswerObject(json: JsonObject, context: DecodeContext): ChatAnswer {
  const builder = new ChatEventBuilder();
  const decoder = new ChunkDecoder(builder, context);
  decoder.read(json);
  decoder.complete(true);
  return collectAnswer(builder.take());
}

/** The JSON object of an answer with `choices`. Throws `upstream_invalid` for anything else. */
export function parseAnswer(body: Buffer): JsonObject {
  const json = parseExactObject(body.toString('utf8'));
  if (json !== undefined && Array.isArray(json.choices)) return json;
  const said = json === undefined ? undefined : openAiErrorMessage(json);
  throw new GatewayError(
    'upstream_invalid',
    said === undefined
      ? 'The provider answered with something that is no chat completion (no JSON object with choices).'
      : `The provider reported an error inside its answer: ${said}`,
    { source: 'provider' },
  );
}
