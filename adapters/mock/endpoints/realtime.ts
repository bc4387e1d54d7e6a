import { headerValue } from '../../../core/ports/header-list.ts';
import { type AnswerText, answerTexts } from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import type { SocketSession } from '../web-socket.ts';
import { isJsonObject } from '../../../core/base/json.ts';

/** Longest stored session settings, in characters of JSON. */
const maxSessionLength = 262_144;

/** Events without effect here, answered with one of this type for the same item. */
const acknowledged: Readonly<Record<string, string>> = {
  'input_audio_buffer.clear': 'input_audio_buffer.cleared',
  'output_audio_buffer.clear': 'output_audio_buffer.cleared',
  'conversation.item.delete': 'conversation.item.deleted',
  'conversation.item.truncate': 'conversation.item.truncated',
};

/** Event names of the preview API (`OpenAI-Beta: realtime=v1`). */
const previewNames: Readonly<Record<string, string>> = {
  'conversation.item.added': 'conversation.item.created',
  'response.output_text.delta': 'response.text.delta',
  'response.output_text.done': 'response.text.done',
};

interface Draft {
  readonly id: string;
  readonly itemId: string;
  readonly text: AnswerText;
  readonly inputTokens: number;
  readonly metadata: unknown;
}

/** A conversation of OpenAI's Realtime API: every `response.create` gets a text answer, never audio. */
export class RealtimeSession implements SocketSession {
  readonly greeting: Iterable<string>;
  readonly #request: MockRequest;
  readonly #context: MockContext;
  readonly #isPreview: boolean;
  #session: JsonObject;
  #said = '';
  #saidBy: 'user' | 'tool' | 'none' = 'none';
  #inputTokens = 3;
  #lastItem: string | null = null;
  /** Response that a client has cancelled. */
  #cancelled = '';
  #speaking = '';

  constructor(request: MockRequest, context: MockContext) {
    this.#request = request;
    this.#context = context;
    this.#isPreview = headerValue(request.headers, 'openai-beta') !== undefined;
    this.#session = {
      type: 'realtime',
      object: 'realtime.session',
      id: context.newId('sess_'),
      model: request.query.get('model') ?? 'mock-realtime',
      output_modalities: ['text'],
      instructions: '',
      tools: [],
      tool_choice: 'auto',
      max_output_tokens: 'inf',
      tracing: null,
      expires_at: context.nowSeconds() + 3600,
    };
    this.greeting = this.#only(this.#event('session.created', { session: this.#session }));
  }

  receive(message: string): Iterable<string> {
    let event: unknown;
    try {
      event = JSON.parse(message);
    } catch {
      return this.#only(this.#error('invalid_json', 'The event is no valid JSON.', null));
    }
    if (!isJsonObject(event) || typeof event['type'] !== 'string')
      return this.#only(this.#error('invalid_event', 'An event is an object with a "type".', null));
    return this.#answer(event, event['type']);
  }

  #answer(event: JsonObject, type: string): Iterable<string> {
    const acknowledgement = Object.hasOwn(acknowledged, type) ? acknowledged[type] : undefined;
    if (acknowledgement !== undefined) {
      const { item_id, content_index, audio_end_ms } = event;
      return this.#only(this.#event(acknowledgement, { item_id, content_index, audio_end_ms }));
    }
    switch (type) {
      case 'session.update':
        return this.#update(event);
      case 'conversation.item.create':
        return this.#hear(event);
      case 'input_audio_buffer.append':
        return [];
      case 'input_audio_buffer.commit':
        return this.#hearSound();
      case 'response.create':
        return this.#respond(event);
      case 'response.cancel':
        if (this.#speaking === '')
          return this.#only(this.#error('response_cancel_not_active', 'No response is active.', event));
        this.#cancelled = this.#speaking;
        return [];
      default: {
        const sentence = `The mock provider does not play the event "${type.slice(0, 100)}". docs/mock-provider.md lists what it plays.`;
        return this.#only(this.#error('not_played', sentence, event));
      }
    }
  }

  #update(event: JsonObject): Iterable<string> {
    const { session } = event;
    if (!isJsonObject(session))
      return this.#only(this.#error('missing_required_parameter', "Missing 'session'.", event));
    const { id, object, expires_at } = this.#session;
    const changed = { ...this.#session, ...session, id, object, expires_at };
    if (JSON.stringify(changed).length > maxSessionLength) {
      const sentence = `The settings of a session have at most ${maxSessionLength} characters.`;
      return this.#only(this.#error('invalid_value', sentence, event));
    }
    this.#session = changed;
    return this.#only(this.#event('session.updated', { session: changed }));
  }

  *#hear(event: JsonObject): Iterable<string> {
    const { item } = event;
    if (!isJsonObject(item)) {
      yield this.#error('missing_required_parameter', "Missing 'item'.", event);
      return;
    }
    this.#listen(item);
    const id = typeof item['id'] === 'string' ? item['id'].slice(0, 100) : this.#context.newId('item_');
    yield* this.#added({ ...item, id, object: 'realtime.item', status: 'completed' }, id);
  }

  *#hearSound(): Iterable<string> {
    const id = this.#context.newId('item_');
    this.#said = 'some audio';
    this.#saidBy = 'user';
    this.#inputTokens += 4;
    yield this.#event('input_audio_buffer.committed', { previous_item_id: this.#lastItem, item_id: id });
    const content = [{ type: 'input_audio', transcript: null }];
    const item = { id, object: 'realtime.item', type: 'message', status: 'completed', role: 'user', content };
    yield* this.#added(item, id);
  }

  *#added(item: object, id: string): Iterable<string> {
    const previous_item_id = this.#lastItem;
    this.#lastItem = id;
    yield this.#event('conversation.item.added', { previous_item_id, item });
    if (!this.#isPreview) yield this.#event('conversation.item.done', { previous_item_id, item });
  }

  #listen(item: JsonObject): void {
    const isResult = item['type'] === 'function_call_output';
    const text =
      isResult && typeof item['output'] === 'string' ? item['output'] : fields.textOfContent(item['content']);
    this.#inputTokens += 4 + answerTexts.countTokens(text);
    if (!isResult && item['role'] !== 'user') return;
    this.#said = text;
    this.#saidBy = isResult ? 'tool' : 'user';
  }

  *#respond(event: JsonObject): Iterable<string> {
    const asked = isJsonObject(event['response']) ? event['response'] : {};
    const input = fields.member(asked, 'input');
    if (Array.isArray(input)) for (const item of input) if (isJsonObject(item)) this.#listen(item);
    const most = fields.member(asked, 'max_output_tokens');
    const { faults } = this.#request;
    const draft: Draft = {
      id: this.#context.newId('resp_'),
      itemId: this.#context.newId('item_'),
      text: answerTexts.limit(answerTexts.sentence(this.#saidBy, this.#said, 0), {
        stop: [],
        tokens: faults.tokens,
        shares: 1,
        maxTokens: typeof most === 'number' && most >= 1 ? Math.floor(most) : undefined,
      }),
      inputTokens: this.#inputTokens,
      metadata: fields.member(asked, 'metadata') ?? null,
    };
    this.#speaking = draft.id;
    yield* this.#speech(draft, faults.chunk_tokens ?? 1);
    this.#speaking = '';
  }

  *#speech(draft: Draft, chunkTokens: number): Iterable<string> {
    const { text, itemId } = draft;
    const previous_item_id = this.#lastItem;
    const at = { response_id: draft.id, item_id: itemId, output_index: 0, content_index: 0 };
    const part = (said: string): object => ({ type: 'text', text: said });
    yield this.#event('response.created', { response: responseOf(draft, 'in_progress', []) });
    const opened = itemOf(itemId, 'in_progress', undefined);
    yield this.#event('response.output_item.added', { ...placed(draft), item: opened });
    this.#lastItem = itemId;
    yield this.#event('conversation.item.added', { previous_item_id, item: opened });
    yield this.#event('response.content_part.added', { ...at, part: part('') });
    let said = '';
    for (const group of answerTexts.groupTokens(text.tokens, chunkTokens)) {
      if (this.#cancelled === draft.id) break;
      said += group.join('');
      yield this.#event('response.output_text.delta', { ...at, delta: group.join('') });
    }
    const isCancelled = this.#cancelled === draft.id;
    const isCut = isCancelled || text.finish === 'length';
    yield this.#event('response.output_text.done', { ...at, text: said });
    yield this.#event('response.content_part.done', { ...at, part: part(said) });
    const item = itemOf(itemId, isCut ? 'incomplete' : 'completed', said);
    yield this.#event('response.output_item.done', { ...placed(draft), item });
    if (!this.#isPreview) yield this.#event('conversation.item.done', { previous_item_id, item });
    const status = isCancelled ? 'cancelled' : isCut ? 'incomplete' : 'completed';
    const usage =
      this.#request.faults.usage === 'none'
        ? null
        : usageOf(draft.inputTokens, answerTexts.countTokens(said));
    yield this.#event('response.done', { response: { ...responseOf(draft, status, [item]), usage } });
  }

  #event(type: string, value: object): string {
    const name = this.#isPreview ? (previewNames[type] ?? type) : type;
    return JSON.stringify({ type: name, event_id: this.#context.newId('event_'), ...value });
  }

  #error(code: string, message: string, event: JsonObject | null): string {
    const id = event?.['event_id'];
    const event_id = typeof id === 'string' ? id.slice(0, 100) : null;
    return this.#event('error', {
      error: { type: 'invalid_request_error', code, message, param: null, event_id },
    });
  }

  #only(event: string): Iterable<string> {
    return [event];
  }
}

function placed({ id }: Draft): object {
  return { response_id: id, output_index: 0 };
}

function responseOf(draft: Draft, status: string, output: readonly object[]): object {
  const reason = status === 'cancelled' ? 'client_cancelled' : 'max_output_tokens';
  const isWhole = status === 'in_progress' || status === 'completed';
  return {
    object: 'realtime.response',
    id: draft.id,
    status,
    status_details: isWhole ? null : { type: status, reason },
    output,
    output_modalities: ['text'],
    metadata: draft.metadata,
    usage: null,
  };
}

function itemOf(id: string, status: string, text: string | undefined): object {
  const content = text === undefined ? [] : [{ type: 'output_text', text }];
  return { id, object: 'realtime.item', type: 'message', status, role: 'assistant', content };
}

function usageOf(input: number, output: number): object {
  return {
    total_tokens: input + output,
    input_tokens: input,
    output_tokens: output,
    input_token_details: { text_tokens: input, audio_tokens: 0, image_tokens: 0, cached_tokens: 0 },
    output_token_details: { text_tokens: output, audio_tokens: 0 },
  };
}
