import {
  asObject,
  type JsonObject,
  objectsOf,
  parseObject,
} from '../../../adapters/dialects/json-reading.ts';
import { nothingHeard, type Frame, type WireClient, type Heard, type HeardUsage, words } from '../heard.ts';

/** A caller of `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse`. */
export const geminiClient: WireClient = {
  name: 'gemini',
  dialect: 'google-gemini',
  path: (model, stream) =>
    `/v1beta/models/${encodeURIComponent(model)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  body: (request) => request,
  hear(answer) {
    const heard = nothingHeard();
    hearChunk(heard, answer);
    return heard;
  },
  hearStream,
  hearError(answer) {
    const error = asObject(answer.error);
    return Number.isInteger(error?.code) && typeof error?.status === 'string'
      ? error.message?.toString()
      : undefined;
  },
  next(request, answer, result) {
    const content = asObject(objectsOf(answer.candidates)[0]?.content) ?? {};
    const call = objectsOf(content.parts).flatMap((part) => asObject(part.functionCall) ?? [])[0];
    const { id, name } = (call ?? {}) as JsonObject;
    const functionResponse = { ...(id === undefined ? {} : { id }), name, response: { result } };
    const told = { role: 'user', parts: [{ functionResponse }] };
    return { ...request, contents: [...objectsOf(request.contents), content, told] };
  },
  finishWords: { stop: 'STOP', length: 'MAX_TOKENS', 'tool-calls': 'STOP', 'content-filter': 'SAFETY' },
};

function hearStream(frames: readonly Frame[]): Heard {
  const heard = nothingHeard();
  for (const [at, { event, data }] of frames.entries()) {
    if (event !== '') heard.problems.push(`frame ${at}: event "${event}"`);
    const chunk = parseObject(data);
    if (chunk === undefined) {
      heard.problems.push(`frame ${at}: no JSON: ${data.slice(0, 40)}`);
      continue;
    }
    const error = asObject(chunk.error);
    if (error === undefined) hearChunk(heard, chunk);
    else {
      heard.error = String(error.message);
      heard.ended = false;
    }
  }
  return heard;
}

function hearChunk(heard: Heard, chunk: JsonObject): void {
  if (typeof chunk.modelVersion !== 'string' || chunk.modelVersion === '')
    heard.problems.push('no modelVersion');
  const candidate = objectsOf(chunk.candidates)[0];
  heard.usage = usageOf(asObject(chunk.usageMetadata)) ?? heard.usage;
  if (candidate === undefined) return;
  const content = asObject(candidate.content);
  if (content !== undefined && content.role !== 'model') heard.problems.push(`role ${String(content.role)}`);
  for (const part of objectsOf(content?.parts)) hearPart(heard, part);
  hearSources(heard, candidate);
  if (candidate.finishReason === undefined) return;
  if (heard.finish !== '') heard.problems.push('two finish reasons');
  heard.finish = words(candidate.finishReason);
  heard.ended = true;
}

function hearPart(heard: Heard, part: JsonObject): void {
  if (typeof part.text === 'string') {
    if (part.thought === true) heard.reasoning += part.text;
    else heard.text += part.text;
  }
  if (typeof part.thoughtSignature === 'string') heard.signatures.push(part.thoughtSignature);
  const call = asObject(part.functionCall);
  if (call === undefined) return;
  if (asObject(call.args) === undefined) heard.problems.push('args of a call are no object');
  heard.calls.push({
    id: typeof call.id === 'string' ? call.id : '',
    name: String(call.name),
    arguments: JSON.stringify(call.args),
  });
}

function hearSources(heard: Heard, candidate: JsonObject): void {
  const grounding = asObject(candidate.groundingMetadata) ?? {};
  const cited = [
    ...objectsOf(asObject(candidate.citationMetadata)?.citationSources),
    ...objectsOf(asObject(candidate.citationMetadata)?.citations),
    ...objectsOf(grounding.groundingChunks).map((chunk) => asObject(chunk.web) ?? {}),
  ];
  for (const { uri } of cited) if (typeof uri === 'string') heard.sources.push(uri);
}

function usageOf(usage: JsonObject | undefined): HeardUsage | undefined {
  if (usage === undefined) return undefined;
  const count = (name: string): number => Number(usage[name] ?? 0);
  return {
    prompt: count('promptTokenCount') + count('toolUsePromptTokenCount'),
    completion: count('candidatesTokenCount') + count('thoughtsTokenCount'),
    cached: count('cachedContentTokenCount'),
    reasoning: count('thoughtsTokenCount'),
  };
}
