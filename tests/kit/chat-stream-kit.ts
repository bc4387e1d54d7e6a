/** Chat streams for tests: their frames, a provider that sends them piece by piece, and what they add up to. */
import type { Answering } from './http-kit.ts';

/** A streamed chat request, with more members of its body. */
export const ask = (more: object = {}) => ({
  path: '/v1/chat/completions',
  body: { model: 'm', stream: true, messages: [{ role: 'user', content: 'x' }], ...more },
});

/** One that asks for usage itself: the gateway then touches no byte of its stream. */
export const asking = ask({ stream_options: { include_usage: true } });

/** One event with this JSON. */
export const frame = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;

/** An event with a piece of text. */
export const delta = (content: string, more: object = {}): string =>
  frame({ id: 'c', model: 'm-1', choices: [{ index: 0, delta: { content }, logprobs: null }], ...more });

/** The first event of most hosts. */
export const role = frame({ id: 'c', model: 'm-1', choices: [{ index: 0, delta: { role: 'assistant' } }] });
/** The last one with a choice. */
export const finish = frame({
  id: 'c',
  model: 'm-1',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
});
/** The one that `include_usage` adds. */
export const usage = frame({
  id: 'c',
  model: 'm-1',
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
});
/** The end marker. */
export const done = 'data: [DONE]\n\n';

/** Answers with these pieces of an event stream, one per turn of the event loop, then does `last`. */
export const pieces =
  (
    given: readonly (string | Buffer)[],
    headers: Readonly<Record<string, string>> = {},
    last: 'end' | 'cut' | 'hang' = 'end',
  ): Answering =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    response.flushHeaders();
    const next = (i: number): void => {
      if (i < given.length) response.write(given[i], () => setImmediate(next, i + 1));
      else if (last === 'end') response.end();
      else if (last === 'cut') response.destroy();
    };
    next(0);
  };

/** The text that the frames of a chat stream add up to. */
export const said = (stream: string): string =>
  [...stream.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json]) => JSON.parse(json ?? '') as { choices?: { delta?: { content?: string } }[] })
    .flatMap(({ choices }) => choices ?? [])
    .map((choice) => choice.delta?.content ?? '')
    .join('');
