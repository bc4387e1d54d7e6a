import assert from 'node:assert/strict';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { type Clock, systemClock } from '../../../core/ports/clock.ts';
import { callTool, sendTo, startApi, upstreamOf } from './openapi.test-support.ts';

const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

/** The system's clock, whose monotonic time the test moves. */
function movedClock(): Clock & { move(ms: number): void } {
  let moved = 0;
  return { ...systemClock, monotonic: () => moved, move: (ms) => void (moved += ms) };
}

describe('the document of an API', () => {
  test('is read again after a failure, with pauses that grow, and never without need', async (t) => {
    let failing = true;
    const api = await startApi(t, {
      script: ({ url }, response) =>
        url === '/openapi.yaml' && failing && Boolean(response.writeHead(503).end('planted')),
    });
    const clock = movedClock();
    const { upstream, log } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` }, { clock });
    const ask = async (): Promise<string> => (await sendTo(upstream, list)).error?.message ?? 'served';
    const reads = (): number => api.arrived.length;
    const told =
      'The OpenAPI document of "library" cannot be used: its URL answered 503; give the URL that answers with the document itself.';
    assert.deepEqual(await Promise.all([ask(), ask()]), [told, told]);
    assert.equal(reads(), 1);
    clock.move(999);
    assert.equal(await ask(), told);
    assert.equal(reads(), 1);
    clock.move(1);
    await Promise.all([ask(), ask()]);
    assert.equal(reads(), 2);
    clock.move(1_999);
    await ask();
    assert.equal(reads(), 2);
    failing = false;
    clock.move(1);
    assert.equal(await ask(), 'served');
    clock.move(10_000_000);
    assert.equal(await ask(), 'served');
    assert.equal(reads(), 3);
    assert.doesNotMatch(JSON.stringify(log.lines), /planted/);
  });

  const answers: readonly [
    name: string,
    status: number,
    headers: Record<string, string>,
    body: string | Buffer,
    told: RegExp,
  ][] = [
    ['a redirect', 302, { location: 'http://127.0.0.1:1/' }, '', /its URL answered 302; give the URL/],
    [
      'a refusal',
      401,
      {},
      '',
      /its URL answered 401; its "headers" are sent for the document when "base_url" has the same origin/,
    ],
    ['too long', 200, { 'content-length': '8388609' }, '', /larger than 8388608 bytes/],
    ['a page', 200, {}, '<html>planted</html>', /it is no object with "openapi"/],
    ['other characters', 200, {}, Buffer.from([0xff, 0xfe, 0x7b]), /not written in UTF-8/],
    [
      'a mistake',
      200,
      {},
      '{"openapi":"3.0.0","paths":{"/a/{b}":{"get":{}}}}',
      /\/paths\/~1a~1\{b\}: no parameter in "path" describes "b"; add it/,
    ],
  ];
  for (const [name, status, headers, body, told] of answers) {
    test(`is refused with the reason: ${name}`, async (t) => {
      const api = await startApi(t, {
        script: (_, response) => {
          response.writeHead(status, headers);
          // The length is announced, and nothing follows.
          return Boolean(headers['content-length'] === undefined ? response.end(body) : response.write('x'));
        },
      });
      const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
      const { head, error } = await sendTo(upstream, list);
      assert.deepEqual([head, error?.code], [undefined, 'mcp_failed']);
      assert.match(error?.message ?? '', told);
      assert.doesNotMatch(error?.message ?? '', /planted/);
    });
  }

  test('is refused with the reason when its file is missing, no file, or too large', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'openapi-'));
    t.after(() => rm(folder, { recursive: true }));
    const large = path.join(folder, 'large.yaml');
    await writeFile(large, '');
    await truncate(large, 8_388_609);
    const expected: readonly [document: string, told: RegExp][] = [
      [path.join(folder, 'none.yaml'), /there is no such file; check "document"/],
      [folder, /"document" is no file/],
      ['/dev/zero', /"document" is no file/],
      [large, /larger than 8388608 bytes/],
      ['http://127.0.0.1:1/openapi.yaml', /cannot connect to 127\.0\.0\.1:1/],
    ];
    for (const [document, told] of expected) {
      const { error } = await sendTo(upstreamOf(t, { document }).upstream, list);
      assert.match(error?.message ?? '', told);
      assert.doesNotMatch(error?.message ?? '', new RegExp(path.basename(folder)));
    }
  });

  test('gets the headers when base_url has its origin', async (t) => {
    const api = await startApi(t);
    const document = `${api.origin}/openapi.yaml`;
    const headers = ['x-library-key', 'k1'];
    await callTool(
      upstreamOf(t, { document, headers, baseUrl: `${api.origin}/v1` }).upstream,
      'listBooks',
      {},
    );
    await callTool(upstreamOf(t, { document, headers }).upstream, 'listBooks', {});
    assert.deepEqual(
      api.arrived.map(({ url, headers: sent }) => [url, sent['x-library-key']]),
      [
        ['/openapi.yaml', 'k1'],
        ['/v1/books', 'k1'],
        ['/openapi.yaml', undefined],
        ['/v1/books', 'k1'],
      ],
    );
  });

  test('is given up when the gateway closes', async (t) => {
    const api = await startApi(t, { script: () => (close(), true) });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    const close = (): void => void upstream.close();
    assert.equal((await sendTo(upstream, list)).error?.code, 'shutting_down');
  });

  test('leaves the gateway free while it is read', async (t) => {
    const paths = Array.from(
      { length: 12_000 },
      (_, index) => `  /r${index}: { get: { summary: Reads ${index} } }`,
    );
    // Turns of the event loop from the sending of the document to the answer: without the thread there would be few.
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    const api = await startApi(t, {
      document(origin) {
        turn();
        return `openapi: 3.1.0\nservers: [{ url: '${origin}' }]\npaths:\n${paths.join('\n')}\n`;
      },
    });
    const { upstream, log } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    const { error } = await sendTo(upstream, list);
    isOver = true;
    assert.equal(error, undefined);
    assert.ok(turns > 500, `${turns} turns`);
    assert.match(JSON.stringify(log.lines), /11000 operations over/);
  });
});
