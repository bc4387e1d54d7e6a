/**
 * What a scripted provider does with one call: faults and answers as timelines, played by the transport without a network
 * (`scripted-transport.ts`) and by a server on real sockets (`scene-server.ts`) alike.
 */

/** One call's timeline. */
export interface UpstreamScene {
  /** Milliseconds until the connection stands, default 0; `never`: it hangs. */
  readonly connect?: 'refused' | 'never' | number;
  /** The call goes out on a connection that has served an answer before. */
  readonly reused?: boolean;
  /** From the moment on at which the whole request has come. When they run out without an end, nothing more happens. */
  readonly steps: readonly SceneStep[];
}

export type SceneStep =
  | { readonly wait: number }
  | { readonly head: number; readonly headers: readonly string[] }
  | { readonly data: Buffer }
  /** `end` completes a chunked body, `close` is an orderly end of the connection, `reset` a disorderly one. */
  | { readonly then: 'end' | 'close' | 'reset' };

const chunked = ['transfer-encoding', 'chunked'];
const events = ['content-type', 'text/event-stream', ...chunked];

/** Passes time. */
export const wait = (ms: number): SceneStep => ({ wait: ms });
/** The head of an answer; its headers frame the body as on a real wire. */
export const head = (status: number, headers: readonly string[] = []): SceneStep => ({
  head: status,
  headers,
});
/** Bytes of its body. */
export const data = (text: string | Buffer): SceneStep => ({ data: Buffer.from(text as string) });

/** Steps of one's own. */
export const scene = (...steps: readonly SceneStep[]): UpstreamScene => ({ steps });
/** Nothing listens there. */
export const refuses = (): UpstreamScene => ({ connect: 'refused', steps: [] });
/** Connecting takes for ever. */
export const neverConnects = (): UpstreamScene => ({ connect: 'never', steps: [] });
/** Takes the request and says nothing. */
export const silent = (): UpstreamScene => scene();
/** Cuts the connection instead of answering, on a fresh connection or on one that was used before. */
export const resetsBeforeHead = ({ reused = false } = {}): UpstreamScene => ({
  reused,
  steps: [{ then: 'reset' }],
});
/** Closes the connection instead of answering. */
export const closesBeforeHead = ({ reused = false } = {}): UpstreamScene => ({
  reused,
  steps: [{ then: 'close' }],
});
/** Begins a JSON answer and cuts the connection. */
export const resetsAfterHead = (): UpstreamScene => scene(jsonHead(200, 100), wait(5), { then: 'reset' });
/** Sends some bytes of a JSON answer and cuts the connection. */
export const resetsInBody = (): UpstreamScene =>
  scene(jsonHead(200, 100), data('{"id":'), wait(5), { then: 'reset' });
/** Begins a JSON answer and says nothing more. */
export const stallsAfterHead = (): UpstreamScene => scene(jsonHead(200, 100));
/** Announces more bytes than come before it closes the connection. */
export const tooShort = (): UpstreamScene =>
  scene(jsonHead(200, 100), data('{"id":"c"}'), wait(5), { then: 'close' });

/** A whole answer. An object is sent as JSON. */
export const answers = (
  status: number,
  body: object | string,
  headers: readonly string[] = [],
): UpstreamScene => {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return scene(jsonHead(status, bytes.length, headers), data(bytes));
};
/** The answer after a while. */
export const after = (ms: number, { steps, ...more }: UpstreamScene): UpstreamScene => ({
  ...more,
  steps: [wait(ms), ...steps],
});
/** A failure as a chat host reports it. */
export const fails = (status: number, headers: readonly string[] = []): UpstreamScene =>
  answers(status, { error: { message: `failed with ${status}`, type: 'server_error' } }, headers);
/** A whole chat completion. */
export const chat = (text: string): UpstreamScene =>
  answers(200, {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm-1',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
  });
/** The answer in pieces of one byte each, `everyMs` apart. */
export const slowly = (everyMs: number, text: string): UpstreamScene =>
  scene(
    jsonHead(200, Buffer.byteLength(text)),
    ...[...Buffer.from(text)].flatMap((byte) => [wait(everyMs), data(Buffer.from([byte]))]),
  );
/** An event stream: each piece `everyMs` after the one before it (the first after the head), then how it ends. */
export const streams = (
  pieces: readonly string[],
  everyMs: number,
  last: 'end' | 'close' | 'reset' | 'hang' = 'end',
): UpstreamScene =>
  scene(
    head(200, events),
    ...pieces.flatMap((piece) => [wait(everyMs), data(piece)]),
    ...(last === 'hang' ? [] : last === 'end' ? [{ then: last }] : [wait(everyMs), { then: last }]),
  );

function jsonHead(status: number, length: number, headers: readonly string[] = []): SceneStep {
  return head(status, ['content-type', 'application/json', ...headers, 'content-length', String(length)]);
}
