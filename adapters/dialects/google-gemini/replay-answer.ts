import type { StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import type { FrameFraming } from './frame-reader.ts';
import { joinCalls, partsOf } from './join-calls.ts';
import { member } from './parts.ts';
import { encodeGeminiUsage } from './answer.ts';

/**
 * The complete answer assembled from the frames of a stream. Throws `upstream_invalid` for a frame with content that
 * cannot be read.
 */
export function assembleAnswer(
  framing: FrameFraming,
  frames: readonly StreamFrame[],
  usage: Usage | undefined,
): Uint8Array {
  const objects: JsonObject[] = [];
  for (const frame of frames) {
    const json = frame.unread === true ? null : framing.read(frame.bytes);
    if (json === null) throw unreadableFrame();
    if (json !== undefined) objects.push(json);
  }
  const answer = joinCalls(joinedCounts(objects));
  for (const value of asArray(answer.candidates)) {
    const candidate = asObject(value) ?? {};
    const content = asObject(candidate.content) ?? {};
    content.parts = joinedTexts(partsOf(candidate));
  }
  if (usage !== undefined && member(answer, 'usageMetadata') === undefined)
    answer.usageMetadata = encodeGeminiUsage(usage);
  return Buffer.from(stringifyExact(answer));
}

/** Later objects repeat the usage; counts that one omits keep their value. Log probabilities are appended. */
function joinedCounts(objects: readonly JsonObject[]): readonly JsonObject[] {
  let usage: JsonObject = {};
  const logprobs = new Map<unknown, JsonObject>();
  return objects.map((json) => {
    const joined = { ...json };
    const counted = asObject(member(json, 'usageMetadata'));
    if (counted !== undefined) {
      usage = { ...usage, ...counted };
      delete joined.usage_metadata;
      joined.usageMetadata = usage;
    }
    joined.candidates = asArray(json.candidates).map((value) =>
      withLogprobs(asObject(value) ?? {}, logprobs),
    );
    if (json.candidates === undefined) delete joined.candidates;
    return joined;
  });
}

function withLogprobs(candidate: JsonObject, known: Map<unknown, JsonObject>): JsonObject {
  const given = asObject(member(candidate, 'logprobsResult'));
  if (given === undefined) return candidate;
  const before = known.get(candidate.index) ?? {};
  const all: JsonObject = { ...before };
  for (const [name, value] of Object.entries(given))
    all[name] = Array.isArray(value) ? [...asArray(before[name]), ...asArray(value)] : value;
  known.set(candidate.index, all);
  return { ...candidate, logprobsResult: all };
}

/** Joins the pieces of one text in one part. */
function joinedTexts(parts: readonly JsonObject[]): readonly JsonObject[] {
  const joined: JsonObject[] = [];
  for (const part of parts) {
    if (typeof part.text !== 'string') {
      joined.push(part);
      continue;
    }
    const isSigned = member(part, 'thoughtSignature') !== undefined;
    if (part.text === '' && !isSigned && Object.keys(part).length === 1) continue;
    const last = joined.at(-1);
    const goesOn =
      last !== undefined &&
      asText(last.text) !== undefined &&
      last.thought === part.thought &&
      member(last, 'thoughtSignature') === undefined &&
      !isSigned;
    if (goesOn) joined[joined.length - 1] = { ...last, text: String(last.text) + part.text };
    else joined.push(part);
  }
  return joined;
}

function unreadableFrame(): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    'The stream holds a frame that is torn, too long or no JSON, so the answer cannot be put together.',
    { source: 'provider' },
  );
}
