import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import zlib from 'node:zlib';
import { GatewayError } from '../errors/gateway-error.ts';
import { LazyBody } from './request-body.ts';

type BodyBytes = ConstructorParameters<typeof LazyBody>[0];

/** A body over these bytes; `reads` counts how often they were asked for. */
function lazy(content: string | Buffer, headers: Record<string, string> = {}, more: Partial<BodyBytes> = {}) {
  const bytes = Buffer.from(content);
  const asked = { reads: 0, held: 0 };
  const source: BodyBytes = {
    hasBody: bytes.length > 0,
    header: (name) => headers[name],
    readBody: () => {
      asked.reads++;
      return Promise.resolve(bytes);
    },
    streamBody: () => Readable.from([bytes]),
    hold: (count) => void (asked.held += count),
    holdParsing: () => undefined,
    releaseParsing: () => undefined,
    ...more,
  };
  return { body: new LazyBody(source, { maxBytes: 1000, maxMembers: 100, maxDepth: 8 }), asked };
}

describe('a request body', () => {
  it('is not read before somebody asks, and then once', async () => {
    const { body, asked } = lazy('{"a":1}');
    assert.deepEqual([body.present, body.loaded, asked.reads], [true, false, 0]);
    assert.throws(() => body.bytes, /has not been read.*reads: \['request\.body'\]/);
    await Promise.all([body.load(), body.load()]);
    await body.load();
    assert.deepEqual([body.loaded, asked.reads, body.text], [true, 1, '{"a":1}']);
    assert.deepEqual(body.json, { a: 1 });
  });

  it('that is there already is brought at once, and can be waited for', async () => {
    const bytes = Buffer.from('{"a":1}');
    const { body } = lazy(bytes, {}, { readBody: () => bytes });
    let reads = 0;
    body.onRead = () => reads++;
    assert.equal(body.bring(), undefined);
    assert.deepEqual([body.loaded, body.json, reads], [true, { a: 1 }, 1]);
    await body.load();
    assert.deepEqual([body.bring(), reads], [undefined, 1]);
    const packed = zlib.gzipSync(bytes);
    const zipped = lazy(packed, { 'content-encoding': 'gzip' }, { readBody: () => packed }).body;
    await zipped.bring();
    assert.deepEqual(zipped.json, { a: 1 });
  });

  it('that was refused at once is refused again for whoever asks again', async () => {
    const failure = new GatewayError('body_too_large', 'Too large.');
    const answers = [
      () => {
        throw failure;
      },
      () => Buffer.from('what is left'),
    ];
    const { body } = lazy('{}', {}, { readBody: () => (answers.shift() as () => Buffer)() });
    await assert.rejects(body.load(), failure);
    await assert.rejects(body.load(), failure);
    await assert.rejects(body.bring() ?? Promise.resolve(), failure);
    assert.equal(body.loaded, false);
  });

  it('that is not there is loaded without reading', async () => {
    const { body, asked } = lazy('');
    await body.load();
    assert.deepEqual(
      [body.present, body.loaded, asked.reads, body.json, body.bytes.length],
      [...[false, true, 0, undefined, 0]],
    );
  });

  it('is parsed only when somebody looks', async () => {
    const { body } = lazy('{"a":1}');
    await body.load();
    assert.equal(body.isJsonDocument, false);
    assert.deepEqual(body.json, { a: 1 });
    assert.equal(body.isJsonDocument, true);
    const text = lazy('no JSON').body;
    await text.load();
    assert.deepEqual([text.json, text.isJsonDocument], [undefined, false]);
  });

  it('of which only the bytes are kept is parsed again for whoever asks, and stays what it was', async () => {
    const { body, asked } = lazy('{"a":1}');
    body.keepBytesOnly();
    assert.equal(body.loaded, false);
    await body.load();
    const { json } = body;
    body.set(['a'], { b: 2 });
    const changed = body.json;
    body.keepBytesOnly();
    body.keepBytesOnly();
    assert.equal(body.isJsonDocument, true);
    assert.deepEqual([body.changed, body.outgoing.toString(), asked.reads], [true, '{"a":{"b":2}}', 1]);
    assert.deepEqual([json, body.json, body.text], [{ a: 1 }, changed, '{"a":{"b":2}}']);
    assert.notEqual(body.json, changed);
    const text = lazy('no JSON').body;
    await text.load();
    assert.equal(text.json, undefined);
    text.keepBytesOnly();
    assert.deepEqual([text.isJsonDocument, text.json], [false, undefined]);
  });

  it('is changed by splicing, and says so', async () => {
    const { body } = lazy('{ "a":1, "seed":9007199254740993 , "b":[] }');
    await body.load();
    assert.deepEqual([body.changed, body.outgoing], [false, body.bytes]);
    body.set(['a'], 2);
    body.set(['b', 0], 'x');
    body.remove(['never']);
    body.remove(['never', 'there']);
    assert.deepEqual([body.changed, body.text], [true, '{ "a":2, "seed":9007199254740993 , "b":["x"] }']);
    assert.deepEqual(body.json, { a: 2, seed: 9007199254740993n, b: ['x'] });
    assert.equal(body.outgoing.toString(), body.text);
  });

  it('is not changed by removing what is not there', async () => {
    const { body } = lazy('{"a":1}');
    await body.load();
    body.remove(['b']);
    assert.equal(body.changed, false);
  });

  it('that is no JSON cannot be changed', async () => {
    const { body } = lazy('text');
    await body.load();
    for (const change of [() => body.set(['a'], 1), () => body.remove(['a'])])
      assert.throws(change, { code: 'invalid_json' });
  });

  it('compressed: decoded for readers, sent on as it came until it is changed', async () => {
    const packed = zlib.gzipSync('{"a":1}');
    const { body, asked } = lazy(packed, { 'content-encoding': 'gzip' });
    await body.load();
    assert.deepEqual([body.text, body.contentEncoding, body.outgoing], ['{"a":1}', 'gzip', packed]);
    assert.equal(asked.held, 7, 'the decoded bytes are counted');
    body.set(['a'], 2);
    assert.deepEqual([body.contentEncoding, body.outgoing.toString()], [undefined, '{"a":2}']);
  });

  it('is streamed only while unread', async () => {
    const { body } = lazy('abc');
    const chunks: Buffer[] = [];
    for await (const chunk of body.stream()) chunks.push(chunk as Buffer);
    assert.equal(Buffer.concat(chunks).toString(), 'abc');
    const read = lazy('abc').body;
    await read.load();
    assert.throws(() => read.stream(), /has been read/);
  });

  it('an encoding that cannot be read is refused before the bytes are, which may still be streamed', async () => {
    const { body, asked } = lazy('abc', { 'content-encoding': 'zstd' });
    await assert.rejects(body.load(), { code: 'body_encoding_unsupported', status: 415 });
    assert.equal(asked.reads, 0);
    assert.ok(body.stream());
  });

  it('a failure to read is everybody’s, and is not tried again', async () => {
    const failure = new GatewayError('overloaded', 'No room.');
    const { body } = lazy('abc', {}, { readBody: () => Promise.reject(failure) });
    await assert.rejects(body.load(), failure);
    await assert.rejects(body.load(), failure);
    assert.throws(() => body.stream(), /has been read/);
  });

  it('left unread on purpose has no JSON, unless it is loaded after all', async () => {
    const { body } = lazy('{"a":1}');
    body.passUnread();
    assert.equal(body.json, undefined);
    await body.load();
    assert.deepEqual(body.json, { a: 1 });
  });
});
