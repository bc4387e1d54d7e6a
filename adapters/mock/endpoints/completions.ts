import {
  answerOf,
  type AnswerText,
  answerTexts,
  frameOf,
  invalid,
  maxAnswerTokens,
  type MockAnswer,
} from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import { chunkEnding, logprobOf } from './chat/chat.ts';
import { givenPrompts, type Prompt } from './embeddings.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const maxChoices = 128;
/** Default token limit of this older endpoint. */
const defaultMaxTokens = 16;

interface Choice extends AnswerText {
  readonly index: number;
  /** Tokens without those of an echoed prompt. */
  readonly written: number;
}

/** POST /completions. */
export function answerCompletions(request: MockRequest, context: MockContext): MockAnswer {
  const { json: body, faults } = request;
  const model = fields.requiredModel(body);
  const prompts =
    fields.member(body, 'prompt') === undefined ? [''] : givenPrompts.read(body, 'prompt', maxChoices);
  const choices = planChoices(body, prompts, faults.tokens);
  const stream = fields.optionalBoolean(body, 'stream', false);
  const promptTokens = givenPrompts.count(prompts);
  const completionTokens = choices.reduce((sum, choice) => sum + choice.written, 0);
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
  const envelope = {
    id: context.newId('cmpl-'),
    object: 'text_completion',
    created: context.nowSeconds(),
    model,
  };
  const top = fields.optionalInteger(body, 'logprobs', 0, 5);
  const reported = faults.usage === 'none' ? {} : { usage };
  if (!stream) {
    return answerOf.json({
      ...envelope,
      choices: choices.map((choice) => ({
        text: choice.tokens.join(''),
        index: choice.index,
        logprobs: logprobs(choice.tokens, top, 0),
        finish_reason: choice.finish,
      })),
      ...reported,
    });
  }
  const options = fields.member(body, 'stream_options');
  if (options !== undefined && !isJsonObject(options))
    throw fields.wrongType('stream_options', 'an object', options);
  const asked = options !== undefined && fields.optionalBoolean(options, 'include_usage', false);
  const withUsage = asked && faults.usage !== 'none';
  const pieces = steps(choices, faults.chunk_tokens ?? 1, top);
  return answerOf.stream(frames(envelope, pieces, withUsage ? usage : undefined), chunkEnding);
}

function planChoices(
  body: JsonObject,
  prompts: readonly Prompt[],
  forcedTokens: number | undefined,
): Choice[] {
  const n = fields.optionalInteger(body, 'n', 1, maxChoices) ?? 1;
  const total = n * prompts.length;
  if (total > maxChoices) throw invalid('n', `Invalid 'n': at most ${maxChoices} choices for all prompts.`);
  const maxTokens = fields.optionalInteger(body, 'max_tokens', 0, Number.MAX_SAFE_INTEGER);
  const limits = {
    stop: fields.textList(body, 'stop', 4),
    maxTokens: maxTokens ?? (forcedTokens === undefined ? defaultMaxTokens : undefined),
    tokens: forcedTokens,
    shares: total,
  };
  const longestEcho = Math.floor((maxAnswerTokens * 4) / total);
  const echo = fields.optionalBoolean(body, 'echo', false);
  return Array.from({ length: total }, (_, index) => {
    const prompt = prompts[Math.floor(index / n)] as Prompt;
    const said = typeof prompt === 'string' ? prompt : `${prompt.length} tokens`;
    const text = answerTexts.limit(
      answerTexts.sentence(said === '' ? 'none' : 'user', said, index % n),
      limits,
    );
    const echoed = echo ? answerTexts.cutTokens(said.slice(0, longestEcho)) : [];
    return { ...text, tokens: [...echoed, ...text.tokens], index, written: text.tokens.length };
  });
}

function* steps(choices: readonly Choice[], size: number, top: number | undefined): Generator<object> {
  for (const { index, tokens, finish } of choices) {
    let offset = 0;
    for (const group of answerTexts.groupTokens(tokens, size)) {
      const text = group.join('');
      yield { text, index, logprobs: logprobs(group, top, offset), finish_reason: null };
      offset += text.length;
    }
    yield { text: '', index, logprobs: null, finish_reason: finish };
  }
}

function* frames(envelope: object, pieces: Iterable<object>, usage: object | undefined): Generator<string> {
  for (const choice of pieces) {
    yield frameOf.data({ ...envelope, choices: [choice], ...(usage === undefined ? {} : { usage: null }) });
  }
  if (usage !== undefined) yield frameOf.data({ ...envelope, choices: [], usage });
}

function logprobs(tokens: readonly string[], top: number | undefined, start: number): object | null {
  if (top === undefined) return null;
  let offset = start;
  const offsets = tokens.map((token) => {
    offset += token.length;
    return offset - token.length;
  });
  return {
    tokens,
    token_logprobs: tokens.map(logprobOf),
    top_logprobs: tokens.map((token) => (top === 0 ? {} : { [token]: logprobOf(token) })),
    text_offset: offsets,
  };
}
