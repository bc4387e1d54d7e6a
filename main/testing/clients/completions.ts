import {
  asObject,
  type JsonObject,
  objectsOf,
  parseObject,
} from '../../../adapters/dialects/json-reading.ts';
import { type Frame, type Heard, type Listener, nothingHeard, words } from '../heard.ts';

/** A caller of `POST /v1/completions`. */
export const completionsListener: Listener = {
  dialect: 'openai-completions',
  path: () => '/v1/completions',
  hear(answer) {
    const heard = nothingHeard();
    hearChunk(heard, answer);
    heard.ended = true;
    return heard;
  },
  hearStream(frames: readonly Frame[]) {
    const heard = nothingHeard();
    for (const [at, { event, data }] of frames.entries()) {
      if (event !== '') heard.problems.push(`frame ${at}: event "${event}"`);
      if (heard.ended) heard.problems.push('frames after [DONE]');
      if (data === '[DONE]') heard.ended = true;
      else {
        const chunk = parseObject(data);
        if (chunk === undefined) heard.problems.push(`frame ${at}: no JSON: ${data.slice(0, 40)}`);
        else hearChunk(heard, chunk);
      }
    }
    return heard;
  },
  hearError: (answer) => asObject(answer.error)?.message?.toString(),
};

function hearChunk(heard: Heard, chunk: JsonObject): void {
  const error = asObject(chunk.error);
  if (error !== undefined) {
    heard.error = String(error.message);
    return;
  }
  if (chunk.object !== 'text_completion') heard.problems.push(`object: ${String(chunk.object)}`);
  if (typeof chunk.id !== 'string' || chunk.id === '') heard.problems.push('no id');
  if (!Array.isArray(chunk.choices)) heard.problems.push('no choices');
  for (const choice of objectsOf(chunk.choices)) {
    heard.text += words(choice.text);
    if (choice.finish_reason == null) continue;
    if (heard.finish !== '') heard.problems.push('two finish reasons');
    heard.finish = words(choice.finish_reason);
  }
  const usage = asObject(chunk.usage);
  if (usage !== undefined)
    heard.usage = {
      prompt: Number(usage.prompt_tokens),
      completion: Number(usage.completion_tokens),
      cached: 0,
      reasoning: undefined,
    };
}
