import {
  asObject,
  type JsonObject,
  objectsOf,
  parseObject,
} from '../../../adapters/dialects/json-reading.ts';
import { nothingHeard, type Frame, type WireClient, type Heard } from '../heard.ts';

/** A caller of `POST /v1/responses`. */
export const responsesClient: WireClient = {
  name: 'responses',
  dialect: 'openai-responses',
  path: () => '/v1/responses',
  body: (request, model, stream) => ({ model, ...request, ...(stream ? { stream: true } : {}) }),
  hear,
  hearStream,
  hearError: (answer) => asObject(answer.error)?.message?.toString(),
  next(request, answer, result) {
    const output = objectsOf(answer.output);
    const id = output.find(({ type }) => type === 'function_call')?.call_id;
    const told = { type: 'function_call_output', call_id: id, output: result };
    return { ...request, input: [...objectsOf(request.input), ...output, told] };
  },
  finishWords: {
    stop: 'completed',
    length: 'incomplete:max_output_tokens',
    'tool-calls': 'completed',
    'content-filter': 'incomplete:content_filter',
  },
};

function hear(answer: JsonObject): Heard {
  const heard = nothingHeard();
  if (answer.object !== 'response') heard.problems.push(`object: ${String(answer.object)}`);
  if (typeof answer.id !== 'string' || answer.id === '') heard.problems.push('no id');
  if (typeof answer.model !== 'string' || answer.model === '') heard.problems.push('no model');
  if (!Number.isInteger(answer.created_at)) heard.problems.push('no created_at');
  for (const item of objectsOf(answer.output)) hearItem(heard, item);
  const reason = asObject(answer.incomplete_details)?.reason;
  heard.finish = typeof reason === 'string' ? `${String(answer.status)}:${reason}` : String(answer.status);
  const usage = asObject(answer.usage);
  if (usage !== undefined) {
    heard.usage = {
      prompt: Number(usage.input_tokens),
      completion: Number(usage.output_tokens),
      cached: Number(asObject(usage.input_tokens_details)?.cached_tokens),
      reasoning: Number(asObject(usage.output_tokens_details)?.reasoning_tokens),
    };
  }
  const error = asObject(answer.error);
  if (error !== undefined) heard.error = String(error.message);
  heard.ended = answer.status === 'completed' || answer.status === 'incomplete';
  return heard;
}

function hearItem(heard: Heard, item: JsonObject): void {
  if (typeof item.id !== 'string' || item.id === '') heard.problems.push(`a ${String(item.type)} without id`);
  if (item.type === 'reasoning') {
    for (const { text } of objectsOf(item.summary)) heard.reasoning += String(text);
    for (const { text } of objectsOf(item.content)) heard.reasoning += String(text);
    if (typeof item.encrypted_content === 'string') heard.signatures.push(item.encrypted_content);
  } else if (item.type === 'function_call') {
    const { call_id: id, name, arguments: text } = item;
    heard.calls.push({ id: String(id), name: String(name), arguments: String(text) });
  } else if (item.type === 'message') {
    for (const part of objectsOf(item.content)) {
      if (part.type === 'refusal') heard.refusal += String(part.refusal);
      if (part.type !== 'output_text') continue;
      heard.text += String(part.text);
      for (const { url, start_index: start, end_index: end } of objectsOf(part.annotations)) {
        if (typeof url === 'string') heard.sources.push(url);
        heard.cited.push(String(part.text).slice(Number(start), Number(end)));
      }
      if (!Array.isArray(part.annotations)) heard.problems.push('output_text without annotations');
    }
  }
}

/** Reads the deltas, and compares them with the `done` events and the closing response. */
function hearStream(frames: readonly Frame[]): Heard {
  const listener = new StreamListener();
  for (const [at, frame] of frames.entries()) listener.take(at, frame);
  return listener.heard();
}

class StreamListener {
  readonly #problems: string[] = [];
  readonly #texts = new Map<string, string>();
  readonly #items = new Map<number, 'open' | 'done'>();
  readonly #doneItems: JsonObject[] = [];
  #last: JsonObject | undefined;
  #error: string | undefined;
  #partial = '';

  take(at: number, { event, data }: Frame): void {
    const said = parseObject(data);
    if (said === undefined) {
      this.#problems.push(`frame ${at}: no JSON: ${data.slice(0, 40)}`);
      return;
    }
    const type = String(said.type);
    if (event !== type) this.#problems.push(`frame ${at}: event "${event}" holds "${type}"`);
    if (said.sequence_number !== at)
      this.#problems.push(`frame ${at}: sequence ${String(said.sequence_number)}`);
    if (at === 0 && type !== 'response.created') this.#problems.push(`the first event is ${type}`);
    if (this.#last !== undefined) this.#problems.push(`${type} after the end`);
    if (type === 'error') this.#error = String(said.message);
    const index = Number(said.output_index);
    if (type === 'response.output_item.added') this.#items.set(index, 'open');
    else if (type === 'response.output_item.done') this.#itemDone(index, said);
    else if (said.output_index !== undefined && this.#items.get(index) !== 'open') {
      this.#problems.push(`${type} for item ${index}, which is not open`);
    }
    this.#textOf(type, said);
    if (['response.completed', 'response.incomplete', 'response.failed'].includes(type)) {
      this.#last = asObject(said.response);
    }
  }

  #itemDone(index: number, said: JsonObject): void {
    if (this.#items.get(index) !== 'open') this.#problems.push(`item ${index} is done but was not added`);
    this.#items.set(index, 'done');
    this.#doneItems[index] = asObject(said.item) ?? {};
  }

  /** The sum of the deltas must equal the text of the `done` event. */
  #textOf(type: string, said: JsonObject): void {
    const kind = type.replace(/\.(delta|done)$/, '');
    const key = `${kind}/${String(said.item_id)}/${JSON.stringify(said.content_index ?? said.summary_index)}`;
    if (type.endsWith('.delta')) {
      this.#texts.set(key, (this.#texts.get(key) ?? '') + String(said.delta));
      if (kind === 'response.output_text') this.#partial += String(said.delta);
    } else if (type.endsWith('.done')) {
      const whole = said.text ?? said.arguments ?? said.refusal ?? said.input;
      if (typeof whole === 'string' && whole !== (this.#texts.get(key) ?? '')) {
        this.#problems.push(
          `${type} says ${JSON.stringify(whole)}, the deltas ${JSON.stringify(this.#texts.get(key))}`,
        );
      }
    }
  }

  heard(): Heard {
    const heard = this.#last === undefined ? { ...nothingHeard(), text: this.#partial } : hear(this.#last);
    heard.problems.unshift(...this.#problems);
    heard.error ??= this.#error;
    if (heard.ended) {
      if ([...this.#items.values()].includes('open')) heard.problems.push('an item was never done');
      if (JSON.stringify(this.#last?.output) !== JSON.stringify(this.#doneItems)) {
        heard.problems.push('the output of the last event is not what the items said');
      }
    }
    return heard;
  }
}
