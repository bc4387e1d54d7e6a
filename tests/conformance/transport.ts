import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type {
  FailureFacts,
  Transport,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import * as scenes from '../kit/upstream-scenes.ts';
import { data, head, scene, wait, type UpstreamScene } from '../kit/upstream-scenes.ts';

/** A transport with a provider behind it. */
interface TransportUnderTest {
  readonly transport: Transport;
  /** Where its provider plays these scenes. */
  play(...scenes: readonly UpstreamScene[]): Promise<string>;
  /** Resolves with the promise, while time passes. */
  come<T>(promise: Promise<T>): Promise<T>;
  /** Lets time pass: so many milliseconds at least. */
  pass(ms: number): Promise<void>;
  /** Calls or connections in use. */
  open(): number;
  /** What the provider received as the body of its latest request, without its framing. */
  received(): string;
  close(): Promise<void>;
}

/** What every `Transport` promises, and whoever stands in for one. */
export function transportConformance(name: string, begin: () => Promise<TransportUnderTest>): void {
  async function start(t: TestContext): Promise<TransportUnderTest> {
    const subject = await begin();
    t.after(() => subject.close());
    return subject;
  }
  describe(`${name}: what becomes of a call`, () => plays(start));
  describe(`${name}: back-pressure`, () => pauses(start));
  describe(`${name}: abort`, () => aborts(start));
  describe(`${name}: bodies and closing`, () => sends(start));
}

type Start = (t: TestContext) => Promise<TransportUnderTest>;

/** Writes down what it hears; pieces of a body that follow each other are one entry. */
class Listener implements UpstreamHandler {
  readonly heard: string[] = [];
  error: GatewayError | undefined;
  facts: FailureFacts | undefined;
  headers: HeaderList = [];
  call!: UpstreamCall;
  over = false;
  onHead: () => void = () => undefined;
  onData: () => boolean = () => true;
  readonly begun: Promise<void>;
  readonly fed: Promise<void>;
  readonly ended: Promise<void>;
  private readonly marks: (() => void)[] = [];

  constructor() {
    const [begun, fed, ended] = [0, 1, 2].map(
      (i) => new Promise<void>((resolve) => (this.marks[i] = resolve)),
    ) as [Promise<void>, Promise<void>, Promise<void>];
    this.begun = begun;
    this.fed = fed;
    this.ended = ended;
  }

  head(status: number, headers: HeaderList): void {
    this.note(`head ${status}`);
    this.headers = headers;
    this.marks[0]?.();
    this.onHead();
  }

  data(chunk: Buffer): boolean {
    if (this.heard.at(-1)?.startsWith('data ') === true)
      this.heard.push(`${this.heard.pop()}${String(chunk)}`);
    else this.note(`data ${String(chunk)}`);
    this.marks[1]?.();
    return this.onData();
  }

  end(): void {
    this.note('end');
    this.finish();
  }

  fail(error: GatewayError, facts: FailureFacts): void {
    this.note(`fail ${error.code}`);
    this.error = error;
    this.facts = facts;
    this.finish();
  }

  private note(what: string): void {
    this.heard.push(this.over ? `${what} (after the end)` : what);
  }

  private finish(): void {
    this.over = true;
    this.marks[2]?.();
  }
}

function begin({ transport }: TransportUnderTest, request: Partial<UpstreamRequest>): Listener {
  const listener = new Listener();
  listener.call = transport.send(
    {
      origin: '',
      method: 'GET',
      path: '/',
      headers: [],
      body: null,
      connectTimeoutMs: 10_000,
      headTimeoutMs: 10_000,
      idleTimeoutMs: 10_000,
      ...request,
    },
    listener,
  );
  return listener;
}

const body = '{"id":"c"}';
const length = (bytes: number): SceneHeaders => ['content-length', String(bytes)];
type SceneHeaders = readonly string[];
const chunked: SceneHeaders = ['transfer-encoding', 'chunked'];

interface Case {
  readonly name: string;
  readonly scene: UpstreamScene;
  readonly request?: Partial<UpstreamRequest>;
  readonly heard: readonly string[];
  readonly message?: RegExp;
  readonly stale?: boolean;
}

const failing: readonly Case[] = [
  {
    name: 'a refused connection',
    scene: scenes.refuses(),
    heard: ['fail upstream_unreachable'],
    message: /^cannot connect to \S+:\d+: ECONNREFUSED, nothing listens there/,
  },
  {
    name: 'a connection that never stands',
    scene: scenes.neverConnects(),
    request: { connectTimeoutMs: 40 },
    heard: ['fail upstream_unreachable'],
    message: /no connection within 40 ms/,
  },
  {
    name: 'a reset before the head',
    scene: scenes.resetsBeforeHead(),
    heard: ['fail upstream_reset'],
    message: /closed the connection before it answered/,
  },
  {
    name: 'a close before the head',
    scene: scenes.closesBeforeHead(),
    heard: ['fail upstream_reset'],
    message: /closed the connection before it answered/,
  },
  {
    name: 'a reset before the head on a used connection',
    scene: scenes.resetsBeforeHead({ reused: true }),
    heard: ['fail upstream_reset'],
    stale: true,
  },
  {
    name: 'a close before the head on a used connection',
    scene: scenes.closesBeforeHead({ reused: true }),
    heard: ['fail upstream_reset'],
    stale: true,
  },
  {
    name: 'a reset in the body on a used connection',
    scene: { ...scenes.resetsInBody(), reused: true },
    heard: ['head 200', 'data {"id":', 'fail upstream_reset'],
  },
  {
    name: 'a reset after the head',
    scene: scenes.resetsAfterHead(),
    heard: ['head 200', 'fail upstream_reset'],
    message: /after 0 bytes of its answer, which is incomplete/,
  },
  {
    name: 'a reset in the body',
    scene: scenes.resetsInBody(),
    heard: ['head 200', 'data {"id":', 'fail upstream_reset'],
    message: /after 6 bytes of its answer, which is incomplete/,
  },
  {
    name: 'fewer bytes than announced',
    scene: scenes.tooShort(),
    heard: ['head 200', `data ${body}`, 'fail upstream_reset'],
    message: /after 10 bytes of its answer, which is incomplete/,
  },
  {
    name: 'a chunked body that is closed before its end',
    scene: scenes.streams(['data: 1\n\n'], 5, 'close'),
    heard: ['head 200', 'data data: 1\n\n', 'fail upstream_reset'],
  },
  {
    name: 'a chunked body that is reset',
    scene: scenes.streams(['data: 1\n\n'], 5, 'reset'),
    heard: ['head 200', 'data data: 1\n\n', 'fail upstream_reset'],
  },
  {
    name: 'a body up to the end of the connection that is reset',
    // Long enough for the bytes to be read before: a reset that is seen with them is reported as an end by libuv.
    scene: scene(head(200), data('abc'), wait(400), { then: 'reset' }),
    heard: ['head 200', 'data abc', 'fail upstream_reset'],
  },
  {
    name: 'silence before the head',
    scene: scenes.silent(),
    request: { headTimeoutMs: 40 },
    heard: ['fail upstream_timeout'],
    message: /sent no answer within 40 ms \(head timeout\)/,
  },
  {
    name: 'silence before the head on a used connection, which may be at work',
    scene: { ...scenes.silent(), reused: true },
    request: { headTimeoutMs: 40 },
    heard: ['fail upstream_timeout'],
  },
  {
    name: 'silence after the head',
    scene: scenes.stallsAfterHead(),
    request: { idleTimeoutMs: 40 },
    heard: ['head 200', 'fail upstream_timeout'],
    message: /sent nothing for 40 ms \(idle timeout\) after 0 bytes/,
  },
  {
    name: 'silence in the body',
    scene: scenes.streams(['data: 1\n\n'], 5, 'hang'),
    request: { idleTimeoutMs: 40 },
    heard: ['head 200', 'data data: 1\n\n', 'fail upstream_timeout'],
    message: /sent nothing for 40 ms \(idle timeout\) after 9 bytes/,
  },
];

const ending: readonly Case[] = [
  { name: 'a whole answer', scene: scenes.answers(200, body), heard: ['head 200', `data ${body}`, 'end'] },
  { name: 'an error with its headers', scene: scenes.fails(429), heard: ['head 429', 'data …', 'end'] },
  {
    name: 'an answer that takes its time, within the limits',
    scene: scenes.after(30, scenes.slowly(10, 'abcdef')),
    request: { headTimeoutMs: 1000, idleTimeoutMs: 1000 },
    heard: ['head 200', 'data abcdef', 'end'],
  },
  {
    name: 'an answer whose pauses are within the limit, but not their sum',
    scene: scenes.slowly(40, 'abcdefgh'),
    request: { idleTimeoutMs: 250 },
    heard: ['head 200', 'data abcdefgh', 'end'],
  },
  {
    name: 'a stream',
    scene: scenes.streams(['data: 1\n\n', 'data: [DONE]\n\n'], 5),
    heard: ['head 200', 'data data: 1\n\ndata: [DONE]\n\n', 'end'],
  },
  {
    name: 'more bytes than announced, which are left out',
    scene: scene(head(200, length(3)), data('abcdef')),
    heard: ['head 200', 'data abc', 'end'],
  },
  {
    name: 'a body up to the end of the connection',
    scene: scene(head(200), data('abc'), { then: 'close' }),
    heard: ['head 200', 'data abc', 'end'],
  },
  { name: 'an empty body', scene: scene(head(200, length(0))), heard: ['head 200', 'end'] },
  {
    name: 'an empty chunked body',
    scene: scene(head(200, chunked), { then: 'end' }),
    heard: ['head 200', 'end'],
  },
  { name: 'no content', scene: scene(head(204)), heard: ['head 204', 'end'] },
  {
    name: 'the head alone, as it was asked for',
    scene: scene(head(200, length(10))),
    request: { method: 'HEAD' },
    heard: ['head 200', 'end'],
  },
  {
    name: 'no bound where the limits are zero',
    scene: scenes.after(80, scenes.streams(['abc'], 80)),
    request: { connectTimeoutMs: 0, headTimeoutMs: 0, idleTimeoutMs: 0 },
    heard: ['head 200', 'data abc', 'end'],
  },
];

function plays(start: Start): void {
  for (const { name, scene: played, request, heard, message, stale = false } of failing) {
    test(`fails: ${name}`, async (t) => {
      const subject = await start(t);
      const listener = begin(subject, { origin: await subject.play(played), ...request });
      assert.deepEqual(listener.heard, [], 'nothing before send has returned');
      await subject.come(listener.ended);
      assert.deepEqual(listener.heard, heard);
      assert.deepEqual(listener.facts, { stale });
      if (message !== undefined) assert.match(listener.error?.message ?? '', message);
      await subject.pass(60);
      assert.deepEqual([listener.heard, subject.open()], [heard, 0]);
    });
  }
  for (const { name, scene: played, request, heard } of ending) {
    test(`ends: ${name}`, async (t) => {
      const subject = await start(t);
      const listener = begin(subject, { origin: await subject.play(played), ...request });
      await subject.come(listener.ended);
      const shown = listener.heard.map((item, i) => (heard[i] === 'data …' ? 'data …' : item));
      assert.deepEqual(shown, heard);
      listener.call.abort(new GatewayError('client_closed', 'late'));
      listener.call.resume();
      await subject.pass(60);
      assert.deepEqual([listener.heard.length, subject.open()], [heard.length, 0]);
    });
  }
  test('hands headers over in their order and case', async (t) => {
    const subject = await start(t);
    const headers = [
      'Retry-After-Ms',
      '7',
      'retry-after',
      '2',
      'x-a',
      '1',
      'X-A',
      '2',
      'content-length',
      '0',
    ];
    const listener = begin(subject, { origin: await subject.play(scene(head(429, headers))) });
    await subject.come(listener.ended);
    assert.deepEqual(listener.headers, headers);
  });
  test('plays one scene per call, the last one again', async (t) => {
    const subject = await start(t);
    const origin = await subject.play(scenes.fails(503), scenes.answers(200, body));
    const statuses: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) {
      const listener = begin(subject, { origin });
      await subject.come(listener.ended);
      statuses.push(listener.heard[0]);
      await subject.pass(20);
    }
    assert.deepEqual(statuses, ['head 503', 'head 200', 'head 200']);
  });
}

function pauses(start: Start): void {
  const slow = [head(200, length(6)), data('abc'), wait(30), data('def')] as const;

  test('a reader without room gets nothing until it resumes, and nobody blames the provider', async (t) => {
    const subject = await start(t);
    const request = { origin: await subject.play(scene(...slow)), idleTimeoutMs: 50 };
    const listener = begin(subject, request);
    listener.onData = () => false;
    await subject.come(listener.fed);
    await subject.pass(200);
    assert.deepEqual(listener.heard, ['head 200', 'data abc']);
    listener.call.resume();
    await subject.pass(200);
    assert.deepEqual(listener.heard, ['head 200', 'data abcdef'], 'the end waits, too');
    listener.call.resume();
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['head 200', 'data abcdef', 'end']);
  });

  test('resuming from inside data counts', async (t) => {
    const subject = await start(t);
    const listener = begin(subject, { origin: await subject.play(scene(...slow)) });
    listener.onData = () => {
      listener.call.resume();
      return false;
    };
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['head 200', 'data abcdef', 'end']);
  });

  test('the idle limit counts again from resuming on', async (t) => {
    const subject = await start(t);
    const request = {
      origin: await subject.play(scene(head(200, length(6)), data('abc'))),
      idleTimeoutMs: 40,
    };
    const listener = begin(subject, request);
    listener.onData = () => false;
    await subject.come(listener.fed);
    await subject.pass(100);
    assert.equal(listener.over, false);
    listener.call.resume();
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['head 200', 'data abc', 'fail upstream_timeout']);
  });

  test('an answer that has come whole stays whole, whatever its connection does then', async (t) => {
    const subject = await start(t);
    const steps = [head(200, length(3)), data('abc'), wait(30), { then: 'reset' }] as const;
    const listener = begin(subject, { origin: await subject.play(scene(...steps)) });
    listener.onData = () => false;
    await subject.come(listener.fed);
    await subject.pass(100);
    assert.deepEqual(listener.heard, ['head 200', 'data abc']);
    listener.call.resume();
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['head 200', 'data abc', 'end']);
  });

  test('a reset is told while the reader has no room', async (t) => {
    const subject = await start(t);
    const listener = begin(subject, { origin: await subject.play(scenes.resetsInBody()) });
    listener.onData = () => false;
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['head 200', 'data {"id":', 'fail upstream_reset']);
  });
}

function aborts(start: Start): void {
  const reason = new GatewayError('client_closed', 'the client left');
  const points: readonly [
    string,
    UpstreamScene,
    (l: Listener, s: TransportUnderTest) => Promise<void>,
    string[],
  ][] = [
    ['at once', scenes.answers(200, body), () => Promise.resolve(), []],
    ['while it connects', scenes.neverConnects(), (_, subject) => subject.pass(30), []],
    ['while the head is awaited', scenes.silent(), (_, subject) => subject.pass(30), []],
    ['after the head', scenes.stallsAfterHead(), (l, subject) => subject.come(l.begun), ['head 200']],
    [
      'in the body',
      scenes.streams(['abc'], 5, 'hang'),
      (l, subject) => subject.come(l.fed),
      ['head 200', 'data abc'],
    ],
    [
      'while the reader has no room',
      scene(head(200, length(6)), data('abc'), wait(10), data('def')),
      async (l, subject) => {
        l.onData = () => false;
        await subject.come(l.fed);
        await subject.pass(50);
      },
      ['head 200', 'data abc'],
    ],
  ];
  for (const [name, played, when, before] of points) {
    test(`${name}: told before abort returns, and nothing is left`, async (t) => {
      const subject = await start(t);
      const listener = begin(subject, { origin: await subject.play(played) });
      await when(listener, subject);
      const heard = [...before, 'fail client_closed'];
      listener.call.abort(reason);
      assert.deepEqual(listener.heard, heard);
      assert.deepEqual([listener.error, listener.facts], [reason, { stale: false }]);
      listener.call.abort(new GatewayError('internal', 'again'));
      listener.call.resume();
      await subject.pass(80);
      assert.deepEqual([listener.heard, subject.open()], [heard, 0]);
    });
  }

  test('from inside head and data, and nothing follows', async (t) => {
    const subject = await start(t);
    const origin = await subject.play(scenes.answers(200, body));
    const inHead = begin(subject, { origin });
    inHead.onHead = () => inHead.call.abort(reason);
    await subject.come(inHead.ended);
    assert.deepEqual(inHead.heard, ['head 200', 'fail client_closed']);
    for (const more of [true, false]) {
      const inData = begin(subject, { origin });
      inData.onData = () => {
        inData.call.abort(reason);
        return more;
      };
      await subject.come(inData.ended);
      assert.deepEqual(inData.heard, ['head 200', `data ${body}`, 'fail client_closed']);
    }
    await subject.pass(40);
    assert.equal(subject.open(), 0);
  });
}

function sends(start: Start): void {
  test('a body of bytes, and one that flows', async (t) => {
    const subject = await start(t);
    const origin = await subject.play(scenes.answers(200, body));
    const flowing = Readable.from([Buffer.from('ab'), Buffer.from('cd')]);
    for (const [sent, headers] of [
      [Buffer.from('abcd'), []],
      [flowing, length(4)],
    ] as const) {
      const listener = begin(subject, { origin, method: 'POST', headers, body: sent });
      await subject.come(listener.ended);
      assert.deepEqual([listener.heard.at(-1), subject.received()], ['end', 'abcd']);
      await subject.pass(20);
    }
  });

  test('a flowing body that breaks ends its call', async (t) => {
    const subject = await start(t);
    const flowing = new Readable({ read: () => undefined });
    flowing.on('error', () => undefined);
    const request = { origin: await subject.play(scenes.silent()), method: 'POST', headers: length(9) };
    const listener = begin(subject, { ...request, body: flowing });
    flowing.push('abc');
    await subject.pass(30);
    flowing.destroy(new Error('gone'));
    await subject.come(listener.ended);
    assert.deepEqual(listener.heard, ['fail client_closed']);
    await subject.pass(40);
    assert.equal(subject.open(), 0);
  });

  test('closing ends what is open, and takes nothing more', async (t) => {
    const subject = await start(t);
    const origin = await subject.play(scenes.silent());
    const open = begin(subject, { origin });
    await subject.pass(30);
    await subject.transport.close();
    const late = begin(subject, { origin });
    assert.deepEqual([open.heard, late.heard], [['fail shutting_down'], []]);
    await subject.come(late.ended);
    assert.deepEqual([late.heard, subject.open()], [['fail shutting_down'], 0]);
  });
}
