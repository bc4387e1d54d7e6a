/** Decoders and encoders of wires: requests, answers and streams that are nearly right, in every pair of wires. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseExactObject } from '../../adapters/dialects/json-reading.ts';
import { answerEvents } from '../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../core/dialects/canonical/chat-answer.ts';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../core/dialects/canonical/chat-event.ts';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { StreamEvent } from '../../core/dialects/stream-event.ts';
import { parseJson, writeJson } from '../../core/base/json.ts';
import { framesOf } from '../../main/testing/heard.ts';
import { cuts, editedBytes, piecesOf } from './bytes.ts';
import {
  brokenSamples,
  clientWires,
  contextOf,
  operations,
  providerWires,
  type ClientWire,
  type ProviderWire,
} from './samples.ts';
import { must, target, unlessRefused, type FuzzTarget } from './target.ts';

const clientOf = (at: number): ClientWire => clientWires[at] as ClientWire;
const providerOf = (at: number): ProviderWire => providerWires[at] as ProviderWire;
const client = fc.nat(clientWires.length - 1);
const provider = fc.nat(providerWires.length - 1);
const bareRequest: ChatRequest = { model: 'm', stream: true, messages: [], tools: [] };

/** What comes out of a translation may repeat names and ids for each piece, but not grow beyond that. */
function mustBeBounded(out: number, from: number): void {
  must(out <= 64 * 1024 + 24 * from, () => `${out} bytes come out of ${from}.`);
}

interface RequestCase {
  readonly client: number;
  readonly body: unknown;
  readonly stream: boolean;
  readonly strict: boolean;
  readonly query: string;
}

const requestCase: fc.Arbitrary<RequestCase> = client.chain((at) =>
  fc.record({
    client: fc.constant(at),
    body: brokenSamples(clientOf(at).requests),
    stream: fc.boolean(),
    strict: fc.boolean(),
    query: fc.constantFrom('', '?alt=sse', '?alt', '?%zz'),
  }),
);

function textAt(body: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<string | number, unknown>)[step], body);
}

function translateRequest({ client: at, body, stream, strict, query }: RequestCase): void {
  const { dialect, endpoint, chat } = clientOf(at);
  const text = JSON.stringify(body);
  const any = parseJson(text);
  const issue = dialect.validateRequest(endpoint, any, strict);
  must((issue?.message.length ?? 0) <= 4000 + text.length, 'The issue is too long.');
  for (const { text: found, path } of dialect.decodeConversation(endpoint, any).texts)
    assert.equal(textAt(any, path), found);
  const json = parseExactObject(text);
  if (json === undefined) return;
  const call = { body: json, model: 'm', stream, query, header: () => undefined };
  const request = unlessRefused(() => chat.decodeRequest(call));
  if (request === undefined) return;
  for (const wire of providerWires) {
    const report = new EncodeReport();
    const encoded = unlessRefused(() => wire.chat.encodeRequest(request, wire.host, report));
    if (encoded === undefined) continue;
    must(encoded.path.startsWith('/'), () => `${wire.name}: the path is ${encoded.path}`);
    const written = parseExactObject(encoded.body.toString());
    must(
      written !== undefined,
      () => `${wire.name} writes no JSON object: ${encoded.body.toString().slice(0, 500)}`,
    );
    mustBeBounded(encoded.body.length, text.length);
    must(
      report.dropped.length <= 64 && report.emulated.length <= 64,
      `${wire.name}: a report without an end`,
    );
  }
}

interface AnswerCase {
  readonly provider: number;
  readonly body: Buffer;
  readonly strict: boolean;
  readonly status: number;
}

const answerCase: fc.Arbitrary<AnswerCase> = provider.chain((at) =>
  fc.record({
    provider: fc.constant(at),
    body: editedBytes(
      brokenSamples(providerOf(at).answers).map((value) => Buffer.from(JSON.stringify(value))),
      1,
    ),
    strict: fc.boolean(),
    status: fc.constantFrom(200, 400, 401, 404, 429, 500, 529, 599),
  }),
);

function translateAnswer({ provider: at, body, strict, status }: AnswerCase): void {
  const wire = providerOf(at);
  const error = wire.chat.decodeError(status, body);
  must(error.message !== '', 'The error has no message.');
  for (const { chat } of clientWires)
    mustBeJson(chat.encodeProviderError(error, contextOf(bareRequest, strict)));
  for (const { dialect, endpoint } of clientWires) {
    dialect.scanAnswer(endpoint, body);
    const any = parseJson(body.toString());
    for (const { path, text, isJson } of dialect.decodeAnswerTexts(endpoint, any))
      if (isJson !== true) assert.equal(textAt(any, path), text);
  }
  const answer = unlessRefused(() => wire.chat.decodeAnswer(body, contextOf(bareRequest, strict)));
  if (answer !== undefined) giveAnswer(answer, strict, body.length);
}

/** Gives an answer to every client, at once and as a stream. */
function giveAnswer(answer: ChatAnswer, strict: boolean, from: number): void {
  mustBeInOrder(answerEvents(answer));
  for (const client of clientWires) {
    const { chat } = client;
    const whole = unlessRefused(() => chat.encodeAnswer(answer, contextOf(bareRequest, strict)));
    if (whole !== undefined) {
      mustBeJson(whole);
      mustBeBounded(whole.length, from);
    }
    writeStream(client, strict, [answerEvents(answer)], from);
  }
}

function mustBeJson(bytes: Buffer): void {
  must(
    parseExactObject(bytes.toString()) !== undefined,
    () => `No JSON object: ${bytes.toString().slice(0, 500)}`,
  );
}

interface StreamCase {
  readonly provider: number;
  readonly bytes: Buffer;
  readonly places: readonly number[] | 'each';
  readonly strict: boolean;
}

const streamCase: fc.Arbitrary<StreamCase> = provider.chain((at) => {
  const { streams, frame, ending } = providerOf(at);
  const whole = fc.constantFrom(...streams).chain((events) =>
    fc.array(fc.tuple(fc.nat(), brokenSamples(streams.flat(), 3)), { maxLength: 3 }).map((changes) => {
      const all: unknown[] = [...events];
      for (const [place, event] of changes) all[place % (all.length + 1)] = event;
      return Buffer.concat([...all.map((event) => frame(event)), ending]);
    }),
  );
  return fc.record({
    provider: fc.constant(at),
    bytes: editedBytes(whole, 2),
    places: cuts,
    strict: fc.boolean(),
  });
});

function readStream(wire: ProviderWire, pieces: readonly Buffer[]): readonly (readonly ChatEvent[])[] {
  const reader = wire.chat.eventReader(wire.streamType, contextOf(bareRequest, true));
  return [...pieces.map((piece) => reader.push(piece)), reader.finish()];
}

function translateStream({ provider: at, bytes, places, strict }: StreamCase): void {
  const wire = providerOf(at);
  const portions = readStream(wire, piecesOf(bytes, places));
  assert.deepEqual(portions.flat(), readStream(wire, [bytes]).flat());
  mustBeInOrder(portions.flat());
  for (const client of clientWires) writeStream(client, strict, portions, bytes.length);
}

/** The order that `ChatEvent` promises. */
function mustBeInOrder(events: readonly ChatEvent[]): void {
  const open = new Map<string, string>();
  const parts = new Map<number, number>();
  const finished = new Set<number>();
  let started = false;
  const orderOf = (event: ChatEvent): string =>
    `${event.type} in ${events
      .map(({ type }) => type)
      .join(' ')
      .slice(0, 2000)}`;
  for (const [at, event] of events.entries()) {
    if (event.type === 'error' || event.type === 'end') {
      must(at === events.length - 1, () => `Not the last one: ${orderOf(event)}`);
      continue;
    }
    if (event.type === 'usage' || event.type === 'extras') continue;
    must((event.type === 'start') !== started, () => `A start at ${at}: ${orderOf(event)}`);
    started = true;
    if (!('choice' in event)) continue;
    must(!finished.has(event.choice), () => `After its finish: ${orderOf(event)}`);
    if (event.type === 'finish') {
      finished.add(event.choice);
      for (const name of open.keys())
        must(!name.startsWith(`${event.choice}:`), () => `Open parts: ${orderOf(event)}`);
      continue;
    }
    const name = `${event.choice}:${event.part}`;
    if (event.type === 'part-start') {
      must(event.part === (parts.get(event.choice) ?? 0), () => `Part ${event.part}: ${orderOf(event)}`);
      parts.set(event.choice, event.part + 1);
      open.set(name, event.head.type);
    } else {
      must(open.has(name), () => `Not open: ${orderOf(event)}`);
      if (event.type === 'part-end') open.delete(name);
    }
  }
}

function writeStream(
  { chat }: ClientWire,
  strict: boolean,
  portions: readonly (readonly ChatEvent[])[],
  from: number,
): void {
  const writer = chat.eventWriter(contextOf(bareRequest, strict));
  const written = Buffer.concat(portions.flatMap((events) => writer.write(events) ?? []));
  mustBeBounded(written.length, 16 * from);
  if (!writer.contentType.startsWith('text/event-stream')) return;
  for (const { data } of framesOf(written))
    must(
      data === '[DONE]' || parseExactObject(data) !== undefined,
      () => `A frame without JSON: ${data.slice(0, 500)}`,
    );
}

const streamsOfClients = clientWires.map(({ dialect }) => {
  const wire = providerWires.find(({ name }) => name === dialect.name);
  return wire ?? (providerWires[0] as ProviderWire);
});
const clientStream = client.chain((at) => {
  const wire = streamsOfClients[at] as ProviderWire;
  const events = fc.array(brokenSamples(wire.streams.flat(), 2), { maxLength: 8 });
  const whole = fc.oneof(
    events.map((all) => Buffer.concat([...all.map((event) => wire.frame(event)), wire.ending])),
    fc
      .constantFrom(...wire.streams)
      .map((all) => Buffer.concat([...all.map((event) => wire.frame(event)), wire.ending])),
  );
  return fc.record({
    client: fc.constant(at),
    bytes: editedBytes(whole, 3),
    places: cuts,
    change: fc.constantFrom('same', 'copy', 'text', 'none'),
  });
});

/** What guards do with a stream that its client and provider speak alike. */
function tapStream({
  client: at,
  bytes,
  places,
  change,
}: {
  readonly client: number;
  readonly bytes: Buffer;
  readonly places: readonly number[] | 'each';
  readonly change: string;
}): void {
  const { dialect, endpoint } = clientOf(at);
  const pieces = piecesOf(bytes, places);
  const [scanner, whole] = [dialect.streamScanner(endpoint), dialect.streamScanner(endpoint)];
  for (const piece of pieces) scanner.scan(piece);
  whole.scan(bytes);
  assert.deepEqual({ ...scanner.facts, ended: scanner.ended }, { ...whole.facts, ended: whole.ended });
  const stripper = dialect.usageStripper?.();
  if (stripper !== undefined) {
    const kept = [...pieces.map((piece) => stripper.push(piece)), stripper.finish()].map(
      (one) => one?.length ?? 0,
    );
    must(kept.reduce((sum, length) => sum + length, 0) <= bytes.length, 'Taking out adds something.');
  }
  const { frames } = dialect;
  if (frames === undefined) return;
  const reader = frames.reader(endpoint);
  const read = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.finish()];
  assert.deepEqual(Buffer.concat(read.map((frame) => frame.bytes)), bytes);
  const changed = (event: StreamEvent): StreamEvent[] => {
    if (change === 'none') return [];
    if (change === 'text' && 'text' in event) return [{ ...event, text: 'x' }];
    return [change === 'copy' ? { ...event } : event];
  };
  const rewriter = frames.rewriter?.();
  let size = 0;
  for (const frame of read) {
    const events = change === 'same' ? frame.events : frame.events.flatMap(changed);
    if (rewriter !== undefined)
      size += rewriter.write(frame, events).reduce((sum, one) => sum + one.bytes.length, 0);
    else size += frames.rewrite?.(frame, events)?.length ?? 0;
  }
  size += rewriter?.late([]).reduce((sum, one) => sum + one.bytes.length, 0) ?? 0;
  mustBeBounded(size, bytes.length);
  const answer = unlessRefused(() => frames.assemble(endpoint, read));
  if (answer === undefined) return;
  mustBeJson(Buffer.from(answer));
  unlessRefused(() => frames.disassemble(endpoint, answer));
}

const operation = fc.nat(operations.length - 1);
const operationBodies = brokenSamples(
  [
    { model: 'm', input: ['a', 'b'], dimensions: 8, encoding_format: 'base64', input_type: 'query' },
    { model: 'm', query: 'a', documents: ['b', { text: 'c' }], top_n: 1, return_documents: true },
    { model: 'm', prompt: 'a', n: 2, size: '1024x1024', response_format: 'b64_json' },
    { model: 'm', input: 'a', voice: 'v', response_format: 'mp3', speed: 1 },
    { model: 'm', messages: [{ role: 'user', content: 'a' }], system: 'b', tools: [] },
    {
      embeddings: [
        [1, 2],
        [3, 4],
      ],
      data: [{ embedding: [1], index: 0 }],
      inputTextTokenCount: 2,
    },
    {
      results: [{ index: 0, relevance_score: 0.5 }],
      totalTokens: 3,
      meta: { billed_units: { input_tokens: 1 } },
    },
    {
      predictions: [
        { embeddings: { values: [1], statistics: { token_count: 2 } }, bytesBase64Encoded: 'AAAA' },
      ],
    },
    {
      candidates: [
        { content: { parts: [{ inlineData: { mimeType: 'audio/L16;rate=24000', data: 'AAAA' } }] } },
      ],
    },
    { result: { data: [[1]], shape: [1, 1] }, images: ['AAAA'], artifacts: [{ base64: 'AAAA' }] },
  ],
  3,
);

/** Targets of this file. */
export const dialectTargets: readonly FuzzTarget[] = [
  target('dialect-requests', () => ({ values: requestCase, check: translateRequest })),
  target('dialect-answers', () => ({ values: answerCase, check: translateAnswer })),
  target('dialect-streams', () => ({ values: streamCase, check: translateStream })),
  target('dialect-taps', () => ({ values: clientStream, check: tapStream })),
  target('dialect-operations', () => ({
    values: fc.record({
      operation,
      request: operationBodies,
      answer: editedBytes(
        operationBodies.map((value) => Buffer.from(JSON.stringify(value))),
        1,
      ),
      type: fc.constantFrom('application/json', 'audio/mpeg', '', 'application/json; charset=x'),
    }),
    check({ operation: at, request, answer, type }) {
      const { codec, host } = operations[at] as (typeof operations)[number];
      const text = JSON.stringify(request);
      const json = parseExactObject(text);
      if (json === undefined) return;
      const encoded = unlessRefused(() => codec.encodeRequest(json, host, new EncodeReport()));
      if (encoded !== undefined) mustBeBounded(encoded.body.length, text.length);
      must(codec.decodeError(500, answer).message !== '', 'The error has no message.');
      const given = unlessRefused(() => codec.decodeAnswer(answer, type, json));
      if (given === undefined || Buffer.isBuffer(given.body)) return;
      mustBeBounded(writeJson(given.body).length, answer.length + text.length);
    },
  })),
];
