// GET /batches/{id}/output at hosts that keep the output of a batch in files.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';

const files: Readonly<Record<string, string>> = {
  'file-out': '{"custom_id":"a"}\n{"custom_id":"b"}\n',
  'file-cut': '{"custom_id":"a"}',
  'file-err': '{"custom_id":"c","error":{}}\n',
};

/** A host with one batch, its files, and no path for outputs. */
function host(batch: object | string, gone: readonly string[] = []): Answering {
  return ({ url }, response) => {
    const [, file] = /^\/v1\/files\/([^/]+)\/content$/.exec(url) ?? [];
    const json = (status: number, body: unknown) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(typeof body === 'string' ? body : JSON.stringify(body));
    if (url === '/v1/batches/batch_1') return json(200, batch);
    if (file !== undefined && files[file] !== undefined && !gone.includes(file)) {
      const bytes = Buffer.from(files[file]);
      const headers = { 'content-type': 'application/octet-stream', etag: '"1"' };
      return response.writeHead(200, { ...headers, 'content-length': bytes.length }).end(bytes);
    }
    return json(404, { error: { message: `Invalid URL (GET ${url})`, type: 'invalid_request_error' } });
  };
}

async function start(t: TestContext, answering: Answering) {
  const upstream = await startUpstream(t, answering);
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'plain' })],
    providers: { plain: { base_url: `${upstream.url}/v1`, api_key: 'sk-held' } },
  });
  const output = (id = 'batch_1', headers: Record<string, string> = {}) =>
    send(gateway.url, { path: `/v1/batches/${id}/output`, method: 'GET', headers });
  const asked = () => upstream.requests.map(({ url }) => url);
  return { upstream, output, asked };
}

describe('the output of a batch', () => {
  test("is its output file where the host has no path for it, asked for with the provider's key", async (t) => {
    const { upstream, output, asked } = await start(
      t,
      host({ status: 'completed', output_file_id: 'file-out' }),
    );
    const answer = await output('batch_1', { range: 'bytes=0-3', 'accept-encoding': 'gzip', 'x-mine': '1' });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.text, files['file-out']);
    assert.equal(answer.headers['content-length'], String(answer.text.length));
    assert.deepEqual(asked(), [
      ...['/v1/batches/batch_1/output', '/v1/batches/batch_1', '/v1/files/file-out/content'],
    ]);
    for (const { headers } of upstream.requests) {
      assert.equal(headers.authorization, 'Bearer sk-held');
      assert.equal(headers['x-mine'], '1');
    }
    assert.equal(upstream.requests[2]?.headers.range, undefined);
    assert.equal(upstream.requests[2]?.headers['accept-encoding'], 'identity');
  });

  for (const [name, first] of [
    ['a whole line', 'file-out'],
    ['a line that does not end', 'file-cut'],
  ] as const)
    test(`ends with the file of its errors, after ${name}`, async (t) => {
      const batch = { status: 'completed', output_file_id: first, error_file_id: 'file-err' };
      const { output } = await start(t, host(batch));
      const answer = await output();
      const lines = answer.text.trimEnd().split('\n');
      assert.deepEqual(
        lines.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id),
        first === 'file-out' ? ['a', 'b', 'c'] : ['a', 'c'],
      );
      assert.deepEqual([answer.headers['content-length'], answer.headers['etag']], [undefined, undefined]);
    });

  test('is the file of its errors where all requests failed', async (t) => {
    const batch = { status: 'completed', output_file_id: null, error_file_id: 'file-err' };
    const { output } = await start(t, host(batch));
    assert.equal((await output()).text, files['file-err']);
  });

  test("is the host's own where it has the path", async (t) => {
    const { output, asked } = await start(t, (_, response) => void response.end('own'));
    assert.equal((await output()).text, 'own');
    assert.equal(asked().length, 1);
  });

  test('breaks where the file of its errors is gone, instead of ending as if it were whole', async (t) => {
    const batch = { status: 'completed', output_file_id: 'file-out', error_file_id: 'file-err' };
    const { output } = await start(t, host(batch, ['file-err']));
    assert.equal((await output()).complete, false);
  });

  const refused: readonly (readonly [string, object | string, status: number, RegExp])[] = [
    ...['validating', 'in_progress', 'finalizing', 'cancelling'].map(
      (status) => [`while it is ${status}`, { status }, 409, /has no output yet.*Ask again/] as const,
    ),
    ['when it failed', { status: 'failed', errors: {} }, 404, /has left no output: it is .{1,2}failed/],
    ['when it says no more', {}, 404, /has left no output\./],
    ['when it is no JSON', '<html>', 502, /in another form than JSON/],
    ['when it is a list', [], 502, /in another form than JSON/],
    ['when its file is gone', { output_file_id: 'file-x' }, 404, /Invalid URL/],
    ['when its file has slashes', { output_file_id: '../../admin' }, 404, /Invalid URL.*\.\.%2F/],
    ['when it is larger than a batch can be', `{"a":"${'x'.repeat(1_100_000)}"}`, 502, /larger than 1048576/],
  ];
  for (const [name, batch, status, message] of refused)
    test(`is refused ${name}`, async (t) => {
      const { output } = await start(t, host(batch));
      const answer = await output();
      assert.equal(answer.status, status, answer.text.slice(0, 300));
      assert.match(answer.text, message);
    });

  test('of a batch that is not there is what the host says of that', async (t) => {
    const { output, asked } = await start(t, host({}));
    const answer = await output('batch_2');
    assert.deepEqual(
      [answer.status, answer.json().error.message],
      [404, 'Invalid URL (GET /v1/batches/batch_2)'],
    );
    assert.equal(asked().length, 2);
  });
});
