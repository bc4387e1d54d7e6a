import {
  dataFrame,
  jsonAnswer,
  type MockAnswer,
  MockProblem,
  openaiError,
  streamAnswer,
} from '../../answer.ts';
import type { MockContext, MockRequest } from '../../request.ts';
import { readChatRequest, type ChatRequest } from './chat-request.ts';
import {
  chatUsage,
  type Choice,
  choiceLogprobs,
  type ChoiceStep,
  choiceSteps,
  completionTokens,
  planChoices,
} from './choices.ts';

/** Members shared by every chunk and the whole answer. */
interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

const fingerprint = { service_tier: 'default', system_fingerprint: 'fp_mock000001' };
const midStream = new MockProblem(500, 'The mock provider failed in mid-stream, as it was asked to.');

/** End and error frames of OpenAI's chunk streams. */
export const chunkEnding = {
  closing: 'data: [DONE]\n\n',
  errorFrame: dataFrame(openaiError(midStream)),
} as const;

/** POST /chat/completions. */
export function answerChat(request: MockRequest, context: MockContext): MockAnswer {
  const chat = readChatRequest(request.json);
  const choices = planChoices(chat, request.faults, context.newId);
  const usage = chatUsage(chat.promptTokens, completionTokens(choices), request.faults);
  const envelope = {
    id: context.newId('chatcmpl-'),
    created: context.nowSeconds(),
    model: chat.model,
  };
  if (!chat.stream) return jsonAnswer(whole(envelope, chat, choices, usage));
  const steps = interleaved(choices.map((choice) => choiceSteps(choice, chat, request.faults.chunk_tokens)));
  return streamAnswer(frames(envelope, chat, steps, usage), chunkEnding);
}

function whole(
  envelope: Envelope,
  chat: ChatRequest,
  choices: readonly Choice[],
  usage: object | undefined,
): object {
  return {
    id: envelope.id,
    object: 'chat.completion',
    created: envelope.created,
    model: envelope.model,
    choices: choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice, chat.tools.legacy),
      logprobs: choiceLogprobs(choice.kind, choice.tokens, chat.topLogprobs),
      finish_reason: choice.finish,
    })),
    ...(usage === undefined ? {} : { usage }),
    ...fingerprint,
  };
}

function messageOf(choice: Choice, legacy: boolean): object {
  const base = { role: 'assistant', content: null, refusal: null, annotations: [] };
  if (choice.kind === 'text') return { ...base, content: choice.tokens.join('') };
  if (choice.kind === 'refusal') return { ...base, refusal: choice.tokens.join('') };
  const calls = choice.calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.argumentTokens.join('') },
  }));
  return legacy ? { ...base, function_call: calls[0]?.function } : { ...base, tool_calls: calls };
}

function* frames(
  envelope: Envelope,
  chat: ChatRequest,
  steps: Iterable<ChoiceStep>,
  usage: object | undefined,
): Generator<string> {
  const base = {
    id: envelope.id,
    object: 'chat.completion.chunk',
    created: envelope.created,
    model: envelope.model,
    ...fingerprint,
  };
  const withUsage = chat.includeUsage && usage !== undefined;
  for (const step of steps) {
    yield dataFrame(withUsage ? { ...base, choices: [step], usage: null } : { ...base, choices: [step] });
  }
  if (withUsage) yield dataFrame({ ...base, choices: [], usage });
}

/** One step of each in turn, until all are exhausted. */
function* interleaved(sources: readonly Iterator<ChoiceStep, void>[]): Generator<ChoiceStep> {
  let left = [...sources];
  while (left.length > 0) {
    const still: Iterator<ChoiceStep, void>[] = [];
    for (const source of left) {
      const next = source.next();
      if (next.done === true) continue;
      yield next.value;
      still.push(source);
    }
    left = still;
  }
}
