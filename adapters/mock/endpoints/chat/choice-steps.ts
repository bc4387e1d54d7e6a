import { groupTokens } from '../../answer-text.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Choice, ToolCall } from './choices.ts';
import { choiceLogprobs } from './logprobs.ts';

/** The `choices` entry of one chunk. */
export interface ChoiceStep {
  readonly index: number;
  readonly delta: object;
  readonly logprobs: object | null;
  readonly finish_reason: string | null;
}

/** A choice as it is streamed: the role, the content or the arguments piece by piece, the finish. */
export function* choiceSteps(
  choice: Choice,
  chat: ChatRequest,
  chunkTokens: number | undefined,
): Generator<ChoiceStep, void> {
  const size = chunkTokens ?? 1;
  const step = (delta: object, logprobs: object | null = null): ChoiceStep => ({
    index: choice.index,
    delta,
    logprobs,
    finish_reason: null,
  });
  const content = choice.kind === 'text' ? '' : null;
  yield step({ role: 'assistant', content, refusal: null });
  for (const tokens of groupTokens(choice.tokens, size)) {
    const text = tokens.join('');
    const delta = choice.kind === 'refusal' ? { refusal: text } : { content: text };
    yield step(delta, choiceLogprobs(choice.kind, tokens, chat.topLogprobs));
  }
  for (const [index, call] of choice.calls.entries()) {
    for (const delta of callDeltas(call, index, size, chat.tools.legacy)) yield step(delta);
  }
  yield { ...step({}), finish_reason: choice.finish };
}

function* callDeltas(call: ToolCall, index: number, size: number, legacy: boolean): Generator<object> {
  if (legacy) yield { function_call: { name: call.name, arguments: '' } };
  else {
    const opened = { name: call.name, arguments: '' };
    yield { tool_calls: [{ index, id: call.id, type: 'function', function: opened }] };
  }
  for (const tokens of groupTokens(call.argumentTokens, size)) {
    const piece = { arguments: tokens.join('') };
    yield legacy ? { function_call: piece } : { tool_calls: [{ index, function: piece }] };
  }
}
