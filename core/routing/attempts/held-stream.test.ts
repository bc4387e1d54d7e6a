import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dialects } from '../../../adapters/dialects/index.ts';
import type { Dialect, StreamScanner } from '../../dialects/dialect.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../../pipeline/answer.ts';
import { HeldStream } from './held-stream.ts';

const chunk = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n';
const failed = 'data: {"error":{"message":"too busy","type":"server_error"}}\n\n';
const broken = new GatewayError('upstream_reset', 'Cut.');

function scanner(): StreamScanner {
  return (dialects.get('openai-chat') as Dialect).streamScanner('chat.completions');
}

/** A source that a test plays by hand, and what became of it. */
class PlayedSource implements StreamSource {
  target: StreamTarget | undefined;
  readonly calls: string[] = [];

  pipe(target: StreamTarget): void {
    this.target = target;
    this.calls.push('pipe');
  }

  resume(): void {
    this.calls.push('resume');
  }

  cancel(error: GatewayError): void {
    this.calls.push(`cancel ${error.code}`);
  }

  play(...texts: readonly string[]): boolean[] {
    return texts.map((text) => (this.target as StreamTarget).data(Buffer.from(text)));
  }
}

/** The reader at the end. */
class Reader implements StreamTarget {
  text = '';
  how = 'open';

  data(bytes: Buffer): boolean {
    this.text += bytes.toString();
    return true;
  }

  end(): void {
    this.how = 'ended';
  }

  fail(error: GatewayError): void {
    this.how = error.code;
  }
}

function held(withScanner = true) {
  const source = new PlayedSource();
  const stream = new HeldStream(source, withScanner ? scanner() : undefined);
  const state: { verdict: GatewayError | undefined | 'waits' } = { verdict: 'waits' };
  void stream.begun().then((failure) => (state.verdict = failure));
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return { source, stream, state, settle };
}

describe('a stream that is held until its first event', () => {
  test('is an answer from its first event on, and loses no byte', async () => {
    const { source, stream, state, settle } = held();
    assert.deepEqual(source.play(chunk.slice(0, 20)), [true]);
    await settle();
    assert.equal(state.verdict, 'waits');
    assert.deepEqual(source.play(chunk.slice(20)), [false]);
    await settle();
    assert.equal(state.verdict, undefined);
    const reader = new Reader();
    stream.pipe(reader);
    assert.equal(reader.text, chunk);
    assert.deepEqual(source.calls, ['pipe', 'resume']);
    source.play(chunk);
    source.target?.end();
    assert.deepEqual([reader.text, reader.how], [chunk + chunk, 'ended']);
  });

  test('at every cut of its bytes', async () => {
    for (let at = 1; at < chunk.length; at++) {
      const { source, state, settle } = held();
      source.play(chunk.slice(0, at), chunk.slice(at));
      await settle();
      assert.equal(state.verdict, undefined, `cut at ${at}`);
    }
  });

  test('fails when the first event is an error, and is stopped', async () => {
    const { source, state, settle } = held();
    source.play(': a comment\n\n', failed);
    await settle();
    assert.ok(GatewayError.is(state.verdict));
    assert.deepEqual([state.verdict.code, state.verdict.source], ['provider_error', 'provider']);
    assert.match(state.verdict.message, /too busy/);
    assert.deepEqual(source.calls, ['pipe', 'cancel provider_error']);
  });

  test('comments decide nothing, up to a bound', async () => {
    const { source, state, settle } = held();
    source.play(': waiting\n\n', ': waiting\n\n');
    await settle();
    assert.equal(state.verdict, 'waits');
    source.play(`: ${'x'.repeat(70_000)}\n\n`);
    await settle();
    assert.equal(state.verdict, undefined);
  });

  test('fails when it breaks before its first event', async () => {
    const { source, state, settle } = held();
    source.play('data: {"id"');
    source.target?.fail(broken);
    await settle();
    assert.equal(state.verdict, broken);
  });

  test('that ends without an event is the answer that it is', async () => {
    const { source, stream, state, settle } = held();
    source.target?.end();
    await settle();
    assert.equal(state.verdict, undefined);
    const reader = new Reader();
    stream.pipe(reader);
    assert.deepEqual([reader.text, reader.how, source.calls], ['', 'ended', ['pipe']]);
  });

  test('that breaks between its first event and its reader breaks for the reader', async () => {
    const { source, stream, state, settle } = held();
    source.play(chunk);
    source.target?.fail(broken);
    await settle();
    assert.equal(state.verdict, undefined);
    const reader = new Reader();
    stream.pipe(reader);
    assert.deepEqual([reader.text, reader.how], [chunk, 'upstream_reset']);
  });

  test('whose wire cannot be read is an answer from its first byte on', async () => {
    const { source, state, settle } = held(false);
    assert.deepEqual(source.play('x'), [false]);
    await settle();
    assert.equal(state.verdict, undefined);
  });

  test('that nobody wants is cancelled, once', async () => {
    const { source, stream, settle } = held();
    source.play(chunk);
    await settle();
    stream.cancel(broken);
    stream.cancel(broken);
    assert.deepEqual(source.calls, ['pipe', 'cancel upstream_reset']);
  });
});
