import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { presign, SigV4Signer } from '../../adapters/credentials/aws-credentials.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Blobs } from '../../core/ports/exports.ts';
import { S3Server } from '../../tests/kit/s3-server.ts';
import { createFileBlobs } from './file-blobs.ts';
import { createS3Blobs, s3Place } from './s3-blobs.ts';

const mebibyte = 1024 * 1024;
let folder = '';
let s3: S3Server;
let stores: { readonly file: Blobs; readonly s3: Blobs };

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'weir-blobs-'));
  s3 = await new S3Server().start();
  stores = { file: createFileBlobs(path.join(folder, 'exports')), s3: bucketOf(s3) };
});
after(async () => {
  await Promise.all([stores.file.close(), stores.s3.close(), s3.close()]);
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  s3.fault = () => undefined;
  s3.requests.length = 0;
});

function bucketOf(server: S3Server, secretAccessKey = server.keys.secretAccessKey): Blobs {
  const keys = { ...server.keys, secretAccessKey };
  const { region } = server;
  const signer = new SigV4Signer({ keys, region, service: 's3' });
  return createS3Blobs({
    firstWaitMs: 1,
    place: s3Place({
      url: `s3://${server.bucket}/weir/logs`,
      region,
      endpoint: server.origin,
      path_style: true,
      expires_days: 7,
      max_rows: 1,
      link_minutes: 1,
      denied_fields: [],
    }),
    signer: {
      sign: (request) => signer.sign(request, Date.now()),
      presign: (origin, name, seconds) =>
        presign({ method: 'GET', origin, path: name, seconds }, { keys, region }, Date.now()),
    },
  });
}

async function* pieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) {
    await Promise.resolve();
    yield bytes.subarray(at, at + size);
  }
}

async function contentOf(blobs: Blobs, name: string): Promise<Buffer | undefined> {
  const blob = await blobs.read(name);
  if (blob === undefined) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of blob.content) chunks.push(chunk);
  const content = Buffer.concat(chunks);
  assert.equal(blob.bytes, content.length);
  return content;
}

async function* failing(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
  await Promise.resolve();
  throw new Error('the source broke');
}

for (const kind of ['file', 's3'] as const) {
  describe(`blobs: ${kind}`, () => {
    test('what was written is read, whatever its length and however it comes', async () => {
      for (const bytes of [0, 1, 5 * mebibyte, 8 * mebibyte, 8 * mebibyte + 1, 21 * mebibyte]) {
        const content = randomBytes(bytes);
        assert.equal(await stores[kind].write('org/one/file.bin', pieces(content, 700_001)), bytes);
        assert.ok((await contentOf(stores[kind], 'org/one/file.bin'))?.equals(content), `${bytes} bytes`);
      }
      assert.equal(await stores[kind].write('org/one/file.bin', Buffer.from('new')), 3);
      assert.equal((await contentOf(stores[kind], 'org/one/file.bin'))?.toString(), 'new');
    });

    test('nothing of a name that is not there, and of one that leads elsewhere an error', async () => {
      assert.equal(await stores[kind].read('org/nothing'), undefined);
      for (const name of ['../secret', 'a/../../b', '/etc/passwd', 'a//b', '', 'a/.hidden', 'a\\b', 'a b'])
        await assert.rejects(stores[kind].read(name), TypeError, name);
    });

    test('a file whose source breaks is not there, and what was there before still is', async () => {
      await stores[kind].write('org/kept.bin', Buffer.from('before'));
      for (const bytes of [10, 9 * mebibyte])
        await assert.rejects(
          stores[kind].write('org/kept.bin', failing(Buffer.alloc(bytes))),
          /the source broke/,
        );
      assert.equal((await contentOf(stores[kind], 'org/kept.bin'))?.toString(), 'before');
    });

    test('a signal ends a write with its reason', async () => {
      const controller = new AbortController();
      const content = (async function* () {
        yield Buffer.alloc(9 * mebibyte);
        await Promise.resolve();
        controller.abort(new Error('stop now'));
        yield Buffer.alloc(9 * mebibyte);
      })();
      await assert.rejects(
        stores[kind].write('org/ended.bin', content, { signal: controller.signal }),
        /stop now/,
      );
      assert.equal(await stores[kind].read('org/ended.bin'), undefined);
    });

    test('a folder goes with everything in it, and its neighbours stay', async () => {
      for (const name of ['org/x/1', 'org/x/deep/2', 'org/xy/3'])
        await stores[kind].write(name, Buffer.from(name));
      await stores[kind].removeFolder('org/x');
      await stores[kind].removeFolder('org/never');
      assert.equal(await stores[kind].read('org/x/1'), undefined);
      assert.equal(await stores[kind].read('org/x/deep/2'), undefined);
      assert.equal((await contentOf(stores[kind], 'org/xy/3'))?.toString(), 'org/xy/3');
    });

    test('it answers', async () => {
      await stores[kind].ping();
    });
  });
}

describe('blobs: file', () => {
  test('only its user may read them, and nothing is left of a write that failed', async () => {
    await stores.file.write('private/a.bin', Buffer.from('x'));
    await assert.rejects(stores.file.write('private/b.bin', failing(Buffer.alloc(10))));
    const place = path.join(folder, 'exports', 'private');
    assert.deepEqual(await readdir(place), ['a.bin']);
    assert.equal((await stat(path.join(place, 'a.bin'))).mode & 0o777, 0o600);
    assert.equal((await stat(place)).mode & 0o777, 0o700);
    assert.equal(
      stores.file.link('private/a.bin', { seconds: 60, fileName: 'a', contentType: 'b' }),
      undefined,
    );
  });

  test('a folder that is none is told with a remedy, and worth another attempt', async () => {
    const place = path.join(folder, 'in-the-way');
    await writeFile(place, 'a file');
    await assert.rejects(createFileBlobs(place).write('a/b', Buffer.from('x')), (error) => {
      assert.ok(GatewayError.is(error));
      assert.equal(error.code, 'store_unavailable');
      assert.match(error.message, /cannot be kept in .*in-the-way \((ENOTDIR|EEXIST)\)\. Free the disk/);
      return true;
    });
  });

  test('whoever stops reading early leaves no file open', async () => {
    await stores.file.write('org/long.bin', Buffer.alloc(3 * mebibyte));
    const blob = await stores.file.read('org/long.bin');
    for await (const chunk of blob?.content ?? []) {
      assert.equal(chunk.length, 256 * 1024);
      break;
    }
    if (process.platform !== 'linux') return;
    const open = await readdir('/proc/self/fd');
    const { readlink } = await import('node:fs/promises');
    const targets = await Promise.all(open.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
    assert.deepEqual(
      targets.filter((target) => target.endsWith('long.bin')),
      [],
    );
  });
});

describe('blobs: S3', () => {
  test('a failure for a while is tried again, and the file is whole', async () => {
    const content = randomBytes(17 * mebibyte);
    for (const fault of [
      { status: 503, code: 'SlowDown' },
      { status: 500, code: 'InternalError' },
      'reset',
    ] as const) {
      const seen = new Map<string, number>();
      s3.fault = ({ method, name, query }) => {
        const key = `${method} ${name} ${query.get('partNumber') ?? ''}`;
        const count = (seen.get(key) ?? 0) + 1;
        seen.set(key, count);
        return count === 1 ? fault : undefined;
      };
      await stores.s3.write('org/faulty.bin', pieces(content, mebibyte));
      assert.ok((await contentOf(stores.s3, 'org/faulty.bin'))?.equals(content));
      assert.ok(
        [...seen.values()].every((count) => count >= 2),
        JSON.stringify([...seen]),
      );
    }
    assert.equal(s3.uploads.size, 0);
  });

  test('a completion that fails within an answer of 200 is tried again', async () => {
    let completions = 0;
    s3.fault = ({ method, query }) => {
      if (method !== 'POST' || !query.has('uploadId')) return undefined;
      completions += 1;
      return completions === 1 ? 'error within 200' : undefined;
    };
    await stores.s3.write('org/completed.bin', Buffer.alloc(9 * mebibyte, 7));
    assert.equal(completions, 2);
    assert.equal(s3.objects.get('weir/logs/org/completed.bin')?.length, 9 * mebibyte);
  });

  test('a part that cannot be stored: the upload is given up, and nothing of it is kept', async () => {
    s3.fault = ({ query }) =>
      query.get('partNumber') === '2' ? { status: 503, code: 'SlowDown' } : undefined;
    await assert.rejects(stores.s3.write('org/lost.bin', Buffer.alloc(20 * mebibyte)), (error) => {
      assert.ok(GatewayError.is(error));
      assert.equal(error.code, 'store_unavailable');
      return true;
    });
    assert.equal(s3.uploads.size, 0);
    assert.equal(s3.requests.filter(({ query }) => query.get('partNumber') === '2').length, 5);
    assert.equal(await stores.s3.read('org/lost.bin'), undefined);
  });

  test('what a person has to mend is said at once, without the secret', async () => {
    const stranger = bucketOf(s3, 'another secret');
    await assert.rejects(stranger.write('org/x', Buffer.from('x')), (error) => {
      assert.ok(error instanceof Error && !GatewayError.is(error));
      assert.match(
        error.message,
        /403 SignatureDoesNotMatch\. Check exports\.url, its region and its credentials/,
      );
      assert.doesNotMatch(error.message, /another secret/);
      return true;
    });
    assert.equal(s3.requests.length, 1);
    await stranger.close();
  });

  test('one part of an upload is in memory at a time: parts are 8 MiB', async () => {
    await stores.s3.write('org/parts.bin', pieces(Buffer.alloc(20 * mebibyte), 123_457));
    const parts = s3.requests.filter(({ query }) => query.has('partNumber')).map(({ bytes }) => bytes);
    assert.deepEqual(parts, [8 * mebibyte, 8 * mebibyte, 4 * mebibyte]);
  });

  test('a folder of more names than one answer lists goes whole', async () => {
    for (let at = 0; at < 1100; at++) s3.objects.set(`weir/logs/org/many/${at}`, Buffer.from('x'));
    await stores.s3.removeFolder('org/many');
    assert.deepEqual(
      [...s3.objects.keys()].filter((name) => name.includes('/many/')),
      [],
    );
  });

  test('a link opens without keys, saves under its name, and ends', async () => {
    await stores.s3.write('org/linked.csv', Buffer.from('a,b\r\n'));
    const link = stores.s3.link('org/linked.csv', {
      seconds: 60,
      fileName: 'logs-1.csv',
      contentType: 'text/csv; charset=utf-8',
    });
    assert.ok(link !== undefined);
    const answer = await fetch(link);
    assert.equal(await answer.text(), 'a,b\r\n');
    assert.equal(answer.headers.get('content-disposition'), 'attachment; filename="logs-1.csv"');
    assert.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
    assert.equal((await fetch(link.replace('linked.csv', 'kept.bin'))).status, 403);
    s3.now = () => Date.now() + 61_000;
    assert.equal((await fetch(link)).status, 403);
    s3.now = () => Date.now();
  });

  for (const [endpoint, pathStyle, url, expected] of [
    ['', false, 's3://logs/a/b', ['https://logs.s3.eu-central-1.amazonaws.com', '', 'a/b/']],
    ['', true, 's3://logs', ['https://s3.eu-central-1.amazonaws.com', '/logs', '']],
    ['', false, 's3://with.dots/', ['https://s3.eu-central-1.amazonaws.com', '/with.dots', '']],
    ['http://minio:9000', true, 's3://logs/x', ['http://minio:9000', '/logs', 'x/']],
    ['http://minio:9000', false, 's3://logs/x', ['http://logs.minio:9000', '', 'x/']],
  ] as const) {
    test(`${url} at ${endpoint || 'AWS'} is at ${expected.join(' ')}`, () => {
      const place = s3Place({
        url,
        endpoint,
        path_style: pathStyle,
        region: 'eu-central-1',
        expires_days: 7,
        max_rows: 1,
        link_minutes: 1,
        denied_fields: [],
      });
      assert.deepEqual([place.origin, place.base, place.prefix], expected);
    });
  }
});
