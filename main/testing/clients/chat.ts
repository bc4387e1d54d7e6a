import {
  asArray,
  asObject,
  type JsonObject,
  objectsOf,
  parseObject,
} from '../../../adapters/dialects/json-reading.ts';
import { nothingHeard, type Frame, type WireClient, type Heard, type HeardUsage, words } from '../heard.ts';

/** A caller of `POST /v1/chat/completions`. */
export const chatClient: WireClient = {
  name: 'chat',
  dialect: 'openai-chat',
  path: () => '/v1/chat/completions',
  body: (request, model, stream) => ({
    model,
    ...request,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }),
  hear(answer) {
    const heard = nothingHeard();
    const choice = objectsOf(answer.choices)[0] ?? {};
    const message = asObject(choice.message) ?? {};
    heard.text = words(message.content);
    heard.reasoning = words(message.reasoning_content);
    heard.refusal = words(message.refusal);
    for (const call of objectsOf(message.tool_calls)) {
      const { name, arguments: text } = asObject(call.function) ?? {};
      heard.calls.push({ id: String(call.id), name: String(name), arguments: String(text) });
    }
    hearSources(heard, message);
    heard.finish = String(choice.finish_reason);
    heard.usage = usageOf(answer.usage);
    heard.ended = true;
    if (answer.object !== 'chat.completion') heard.problems.push(`object: ${String(answer.object)}`);
    checkHead(heard, answer);
    return heard;
  },
  hearStream,
  hearError: (answer) => asObject(answer.error)?.message?.toString(),
  next(request, answer, result) {
    const message = asObject(objectsOf(answer.choices)[0]?.message) ?? {};
    const id = objectsOf(message.tool_calls)[0]?.id;
    const told = { role: 'tool', tool_call_id: id, content: result };
    return { ...request, messages: [...objectsOf(request.messages), message, told] };
  },
  finishWords: {
    stop: 'stop',
    length: 'length',
    'tool-calls': 'tool_calls',
    'content-filter': 'content_filter',
  },
};

function hearStream(frames: readonly Frame[]): Heard {
  const heard = nothingHeard();
  const calls: { id: string; name: string; arguments: string }[] = [];
  const ids = new Set<unknown>();
  for (const [at, { event, data }] of frames.entries()) {
    if (event !== '') heard.problems.push(`frame ${at}: event "${event}"`);
    if (data === '[DONE]') {
      heard.ended = true;
      if (at !== frames.length - 1) heard.problems.push('frames after [DONE]');
      continue;
    }
    const chunk = parseObject(data);
    if (chunk === undefined) {
      heard.problems.push(`frame ${at}: no JSON`);
      continue;
    }
    const error = asObject(chunk.error);
    if (error !== undefined) {
      heard.error = String(error.message);
      continue;
    }
    ids.add(chunk.id);
    checkHead(heard, chunk);
    if (chunk.object !== 'chat.completion.chunk') heard.problems.push(`object: ${String(chunk.object)}`);
    if (!Array.isArray(chunk.choices)) heard.problems.push(`frame ${at}: no choices`);
    for (const choice of objectsOf(chunk.choices)) hearChoice(heard, calls, choice);
    heard.usage = usageOf(chunk.usage) ?? heard.usage;
  }
  if (ids.size > 1) heard.problems.push('the id changes within the stream');
  heard.calls.push(...calls);
  return heard;
}

function hearChoice(
  heard: Heard,
  calls: { id: string; name: string; arguments: string }[],
  choice: JsonObject,
): void {
  const delta = asObject(choice.delta) ?? {};
  heard.text += words(delta.content);
  heard.reasoning += words(delta.reasoning_content);
  heard.refusal += words(delta.refusal);
  hearSources(heard, delta);
  for (const piece of objectsOf(delta.tool_calls)) {
    const index = Number(piece.index);
    if (!Number.isInteger(index)) heard.problems.push('a piece of a call without an index');
    const given = asObject(piece.function) ?? {};
    if (calls[index] === undefined) {
      if (typeof piece.id !== 'string' || typeof given.name !== 'string' || piece.type !== 'function') {
        heard.problems.push(`call ${index} begins without id, type or name`);
      }
      calls[index] = { id: String(piece.id), name: String(given.name), arguments: '' };
    }
    calls[index].arguments += words(given.arguments);
  }
  if (choice.finish_reason == null) return;
  if (heard.finish !== '') heard.problems.push('two finish reasons');
  heard.finish = words(choice.finish_reason);
}

function hearSources(heard: Heard, message: JsonObject): void {
  for (const annotation of asArray(message.annotations)) {
    const citation = asObject(asObject(annotation)?.url_citation) ?? {};
    if (typeof citation.url === 'string') heard.sources.push(citation.url);
    // Positions count in the whole text: of a stream, in the text until then.
    heard.cited.push(heard.text.slice(Number(citation.start_index), Number(citation.end_index)));
  }
}

function checkHead(heard: Heard, head: JsonObject): void {
  if (typeof head.id !== 'string' || head.id === '') heard.problems.push('no id');
  if (typeof head.model !== 'string' || head.model === '') heard.problems.push('no model');
  if (!Number.isInteger(head.created) || head.created === 0) heard.problems.push('no created');
}

function usageOf(value: unknown): HeardUsage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  return {
    prompt: Number(usage.prompt_tokens),
    completion: Number(usage.completion_tokens),
    cached: Number(asObject(usage.prompt_tokens_details)?.cached_tokens ?? 0),
    reasoning: Number(asObject(usage.completion_tokens_details)?.reasoning_tokens ?? 0),
  };
}
