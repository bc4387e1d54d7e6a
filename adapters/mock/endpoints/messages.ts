import {
  answerOf,
  type AnswerText,
  answerTexts,
  errorOf,
  frameOf,
  invalid,
  type MockAnswer,
  MockProblem,
} from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const midStream = new MockProblem(500, 'The mock provider failed in mid-stream, as it was asked to.');

interface Draft {
  readonly id: string;
  readonly model: string;
  readonly text: AnswerText;
  readonly inputTokens: number;
  readonly withUsage: boolean;
}

/** POST /messages, in Anthropic's shape: answers in words, streamed or not. */
export function answerMessages(request: MockRequest, context: MockContext): MockAnswer {
  const { json: body, faults } = request;
  const model = fields.requiredModel(body);
  const maxTokens = fields.optionalInteger(body, 'max_tokens', 1, Number.MAX_SAFE_INTEGER);
  if (maxTokens === undefined) throw fields.missing('max_tokens');
  const { said, inputTokens } = readConversation(body);
  const draft: Draft = {
    id: context.newId('msg_'),
    model,
    text: answerTexts.limit(answerTexts.sentence(said === '' ? 'none' : 'user', said, 0), {
      stop: fields.textList(body, 'stop_sequences', 64),
      maxTokens,
      tokens: faults.tokens,
      shares: 1,
    }),
    inputTokens,
    withUsage: faults.usage !== 'none',
  };
  if (!fields.optionalBoolean(body, 'stream', false)) return answerOf.json(whole(draft));
  return answerOf.stream(frames(draft, faults.chunk_tokens ?? 1), {
    closing: frameOf.named('message_stop', { type: 'message_stop' }),
    errorFrame: frameOf.named('error', errorOf.anthropic(midStream)),
  });
}

/** POST /messages/count_tokens. Tools count as in a chat, to which the gateway translates messages. */
export function countMessageTokens({ json: body }: MockRequest): MockAnswer {
  fields.requiredModel(body);
  const { inputTokens } = readConversation(body);
  const tools = fields.member(body, 'tools');
  if (tools === undefined) return answerOf.json({ input_tokens: inputTokens });
  if (!Array.isArray(tools)) throw fields.wrongType('tools', 'an array', tools);
  const asInChat = tools.map((tool: unknown) => {
    const { name, description, input_schema: parameters } = isJsonObject(tool) ? tool : {};
    return { type: 'function', function: { name, description, parameters } };
  });
  return answerOf.json({ input_tokens: inputTokens + answerTexts.countTokens(JSON.stringify(asInChat)) });
}

function readConversation(body: JsonObject): { said: string; inputTokens: number } {
  const messages = fields.member(body, 'messages');
  if (messages === undefined) throw fields.missing('messages');
  if (!Array.isArray(messages)) throw fields.wrongType('messages', 'an array', messages);
  if (messages.length === 0) throw invalid('messages', 'messages: at least one message is required.');
  let said = '';
  const system = fields.textOfContent(body['system']);
  let inputTokens = 3 + (system === '' ? 0 : 4 + answerTexts.countTokens(system));
  for (const [index, message] of (messages as readonly unknown[]).entries()) {
    const role = isJsonObject(message) ? message['role'] : undefined;
    if (!isJsonObject(message) || (role !== 'user' && role !== 'assistant')) {
      throw invalid(`messages[${index}].role`, `messages.${index}.role: expected 'user' or 'assistant'.`);
    }
    const text = fields.textOfContent(message['content']);
    inputTokens += 4 + answerTexts.countTokens(text);
    if (role === 'user') said = text;
  }
  return { said, inputTokens };
}

function message(draft: Draft, changing: object): object {
  return {
    id: draft.id,
    type: 'message',
    role: 'assistant',
    model: draft.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...changing,
  };
}

function ending(draft: Draft): object {
  const { finish, stopSequence } = draft.text;
  const reason = finish === 'length' ? 'max_tokens' : stopSequence === null ? 'end_turn' : 'stop_sequence';
  return { stop_reason: reason, stop_sequence: stopSequence };
}

function usage(draft: Draft, outputTokens: number): object {
  if (!draft.withUsage) return {};
  return {
    usage: {
      input_tokens: draft.inputTokens,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: outputTokens,
      service_tier: 'standard',
    },
  };
}

function whole(draft: Draft): object {
  const { tokens } = draft.text;
  return message(draft, {
    content: [{ type: 'text', text: tokens.join('') }],
    ...ending(draft),
    ...usage(draft, tokens.length),
  });
}

function* frames(draft: Draft, chunkTokens: number): Generator<string> {
  const event = (type: string, value: object) => frameOf.named(type, { type, ...value });
  const { tokens } = draft.text;
  yield event('message_start', { message: message(draft, usage(draft, 1)) });
  yield event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
  yield event('ping', {});
  for (const group of answerTexts.groupTokens(tokens, chunkTokens)) {
    yield event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: group.join('') } });
  }
  yield event('content_block_stop', { index: 0 });
  yield event('message_delta', { delta: ending(draft), ...usage(draft, tokens.length) });
}
