import {
  asObject,
  type JsonObject,
  objectsOf,
  parseObject,
} from '../../../adapters/dialects/json-reading.ts';
import { nothingHeard, type Frame, type WireClient, type Heard, type HeardUsage } from '../heard.ts';

/** A caller of `POST /v1/messages`. */
export const messagesClient: WireClient = {
  name: 'messages',
  dialect: 'anthropic-messages',
  path: () => '/v1/messages',
  body: (request, model, stream) => ({ model, ...request, ...(stream ? { stream: true } : {}) }),
  hear,
  hearStream,
  hearError: (answer) => (answer.type === 'error' ? asObject(answer.error)?.message?.toString() : undefined),
  next(request, answer, result) {
    const { content } = answer;
    const id = objectsOf(content).find(({ type }) => type === 'tool_use')?.id;
    const told = { type: 'tool_result', tool_use_id: id, content: result };
    const turns = [
      { role: 'assistant', content },
      { role: 'user', content: [told] },
    ];
    return { ...request, messages: [...objectsOf(request.messages), ...turns] };
  },
  finishWords: {
    stop: 'end_turn',
    length: 'max_tokens',
    'tool-calls': 'tool_use',
    'content-filter': 'refusal',
  },
};

function hear(answer: JsonObject): Heard {
  const heard = nothingHeard();
  if (answer.type !== 'message' || answer.role !== 'assistant')
    heard.problems.push('no message of an assistant');
  if (typeof answer.id !== 'string' || answer.id === '') heard.problems.push('no id');
  if (typeof answer.model !== 'string' || answer.model === '') heard.problems.push('no model');
  if (!('stop_sequence' in answer)) heard.problems.push('no stop_sequence');
  for (const block of objectsOf(answer.content)) hearBlock(heard, block, JSON.stringify(block.input));
  heard.finish = String(answer.stop_reason);
  heard.usage = usageOf(asObject(answer.usage));
  heard.ended = true;
  return heard;
}

function hearBlock(heard: Heard, block: JsonObject, input: string | undefined): void {
  if (block.type === 'text') heard.text += String(block.text);
  if (block.type === 'thinking') {
    heard.reasoning += String(block.thinking);
    if (typeof block.signature !== 'string') heard.problems.push('thinking without the member signature');
    else if (block.signature !== '') heard.signatures.push(block.signature);
  }
  if (block.type === 'tool_use') {
    heard.calls.push({ id: String(block.id), name: String(block.name), arguments: input ?? '' });
  }
  for (const { url } of objectsOf(block.citations)) if (typeof url === 'string') heard.sources.push(url);
}

interface OpenBlock {
  readonly index: number;
  readonly block: JsonObject;
  json: string;
}

/** Follows the stream as the vendor's accumulator does. */
function hearStream(frames: readonly Frame[]): Heard {
  const listener = new StreamListener();
  for (const [at, frame] of frames.entries()) listener.take(at, frame);
  return listener.heard;
}

class StreamListener {
  readonly heard = nothingHeard();
  #open: OpenBlock | undefined;
  #blocks = 0;
  #usage: JsonObject = {};

  take(at: number, { event, data }: Frame): void {
    const { heard } = this;
    const said = parseObject(data);
    if (said === undefined) {
      heard.problems.push(`frame ${at}: no JSON`);
      return;
    }
    const type = String(said.type);
    if (event !== type) heard.problems.push(`frame ${at}: event "${event}" holds "${type}"`);
    if (heard.ended) heard.problems.push(`${type} after message_stop`);
    if (type === 'message_start') this.#start(at, asObject(said.message) ?? {});
    else if (at === 0) heard.problems.push(`the first event is ${type}`);
    if (type === 'content_block_start') this.#blockStart(said);
    if (type === 'content_block_delta') this.#delta(said);
    if (type === 'content_block_stop') this.#blockStop(said);
    if (type === 'message_delta') this.#messageDelta(said);
    if (type === 'message_stop') {
      if (heard.finish === '') heard.problems.push('message_stop without a stop_reason');
      heard.ended = true;
    }
    if (type === 'error') heard.error = String(asObject(said.error)?.message);
  }

  #start(at: number, message: JsonObject): void {
    const { problems } = this.heard;
    if (at !== 0) problems.push('a second message_start');
    if (!Array.isArray(message.content) || message.content.length > 0)
      problems.push('message_start with content');
    if (typeof message.id !== 'string' || message.id === '') problems.push('no id');
    if (typeof message.model !== 'string' || message.model === '') problems.push('no model');
    const usage = asObject(message.usage);
    if (usage === undefined) problems.push('message_start without usage');
    this.#usage = { ...usage };
  }

  #blockStart(said: JsonObject): void {
    const index = Number(said.index);
    if (this.#open !== undefined) this.heard.problems.push(`block ${index} begins within another`);
    if (index !== this.#blocks++) this.heard.problems.push(`block ${index} is not the next`);
    this.#open = { index, block: { ...asObject(said.content_block) }, json: '' };
  }

  #delta(said: JsonObject): void {
    const delta = asObject(said.delta) ?? {};
    const open = this.#open;
    if (open === undefined || open.index !== said.index) {
      this.heard.problems.push(`a delta for block ${String(said.index)}, which is not open`);
      return;
    }
    const { block } = open;
    if (delta.type === 'text_delta') block.text = String(block.text) + String(delta.text);
    else if (delta.type === 'thinking_delta')
      block.thinking = String(block.thinking) + String(delta.thinking);
    else if (delta.type === 'signature_delta') block.signature = delta.signature;
    else if (delta.type === 'input_json_delta') open.json += String(delta.partial_json);
    else if (delta.type === 'citations_delta')
      block.citations = [...objectsOf(block.citations), delta.citation];
    else this.heard.problems.push(`an unknown delta "${String(delta.type)}"`);
    const wanted = { text_delta: 'text', thinking_delta: 'thinking', signature_delta: 'thinking' }[
      String(delta.type)
    ];
    if (wanted !== undefined && wanted !== block.type) {
      this.heard.problems.push(`${String(delta.type)} in a block "${String(block.type)}"`);
    }
  }

  #blockStop(said: JsonObject): void {
    const open = this.#open;
    if (open === undefined || open.index !== said.index) {
      this.heard.problems.push(`block ${String(said.index)} ends but is not open`);
      return;
    }
    this.#open = undefined;
    hearBlock(this.heard, open.block, open.json === '' ? JSON.stringify(open.block.input) : open.json);
  }

  #messageDelta(said: JsonObject): void {
    if (this.#open !== undefined) this.heard.problems.push('message_delta within a block');
    const delta = asObject(said.delta) ?? {};
    if (typeof delta.stop_reason === 'string') this.heard.finish = delta.stop_reason;
    for (const [name, value] of Object.entries(asObject(said.usage) ?? {})) {
      if (value !== null) this.#usage[name] = value;
    }
    this.heard.usage = usageOf(this.#usage);
  }
}

function usageOf(usage: JsonObject | undefined): HeardUsage | undefined {
  if (usage === undefined) return undefined;
  const count = (name: string): number => Number(usage[name] ?? 0);
  const cached = count('cache_read_input_tokens');
  return {
    prompt: count('input_tokens') + cached + count('cache_creation_input_tokens'),
    completion: count('output_tokens'),
    cached,
    reasoning: undefined,
  };
}
