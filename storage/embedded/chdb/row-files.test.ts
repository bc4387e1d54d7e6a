import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { temporaryFolder } from '../chdb-fixture.ts';
import type { EngineRequest } from './engine.ts';
import { createEngineServer, BodyReader, RowFiles } from './http-server.ts';

const inserted: EngineRequest[] = [];
const engine = {
  run(request: EngineRequest) {
    inserted.push(request);
    return Promise.resolve({
      bytes: Buffer.alloc(0),
      readRows: 0,
      readBytes: 0,
      writtenRows: 0,
      writtenBytes: 0,
    });
  },
};
let home: Awaited<ReturnType<typeof temporaryFolder>>;
let journal = '';
let url = '';
let stop = (): unknown => undefined;
const authorization = `Basic ${Buffer.from('weir:word').toString('base64')}`;
const insert = 'INSERT INTO t FORMAT JSONEachRow';

before(async () => {
  home = await temporaryFolder();
  journal = join(home.path, 'journal');
  const rowFolders = [journal, join(home.path, 'never made')];
  const server = createEngineServer({ engine, username: 'weir', password: 'word', rowFolders });
  // The folder comes into being after the server, as at the first start.
  await mkdir(join(journal, 'deeper'), { recursive: true });
  await mkdir(join(home.path, 'journal-of-others'));
  const text = '0123456789';
  for (const file of [
    'journal/a.sealed',
    'journal/ä &=#%.sealed',
    'journal/deeper/b',
    'secret',
    'journal-of-others/c',
  ]) {
    await writeFile(join(home.path, file), text);
  }
  await symlink(join(home.path, 'secret'), join(journal, 'link'));
  await symlink(home.path, join(journal, 'linked-folder'));
  await symlink(journal, join(home.path, 'other-name'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  stop = () => server.close();
});
after(async () => {
  stop();
  await home.remove();
});

interface Asking {
  readonly file?: string;
  readonly from?: string;
  readonly end?: string;
  readonly query?: string;
  readonly data?: string;
  readonly headers?: Record<string, string>;
}

async function ask(asking: Asking): Promise<{ status: number; code: string | null }> {
  const { file, from = '2', end = '5', query = insert, data, headers = { authorization } } = asking;
  const search = new URLSearchParams({ weir_rows_from: from, weir_rows_end: end });
  if (file !== undefined) search.set('weir_rows_file', file);
  if (data !== undefined) search.set('query', query);
  const response = await fetch(`${url}?${search.toString()}`, {
    method: 'POST',
    body: data ?? query,
    headers,
  });
  await response.arrayBuffer();
  return { status: response.status, code: response.headers.get('x-clickhouse-exception-code') };
}

for (const [what, file] of [
  ['a file of the folder', 'journal/a.sealed'],
  ['a name that a query string has to escape', 'journal/ä &=#%.sealed'],
  ['a file further down', 'journal/deeper/b'],
  ['the folder by another name', 'other-name/a.sealed'],
  ['a way around that ends inside', 'journal/../journal/a.sealed'],
] as const) {
  test(`rows are read from ${what}`, async () => {
    inserted.length = 0;
    assert.deepEqual(await ask({ file: join(home.path, file) }), { status: 200, code: null });
    const [request] = inserted;
    assert.equal(request?.data.toString(), '234');
    assert.deepEqual([...(request?.settings ?? [])], [], 'the place of the rows is no setting');
  });
}

const denied = { status: 403, code: '497' };
const wrong = { status: 400, code: '36' };
const refusals: readonly [what: string, asking: () => Asking, answer: { status: number; code: string }][] = [
  ['outside of the folders', () => ({ file: join(home.path, 'secret') }), denied],
  ['outside, by the way of a folder', () => ({ file: `${journal}/../secret` }), denied],
  ['in a folder whose name begins alike', () => ({ file: join(home.path, 'journal-of-others/c') }), denied],
  ['behind a linked folder', () => ({ file: join(journal, 'linked-folder/secret') }), denied],
  ['behind a link', () => ({ file: join(journal, 'link') }), { status: 500, code: '107' }],
  ['in the folder itself', () => ({ file: journal }), denied],
  ['above the folder', () => ({ file: `${journal}/..` }), denied],
  ['in no absolute path', () => ({ file: 'journal/a.sealed' }), denied],
  ['of the system', () => ({ file: '/etc/hostname' }), denied],
  ['in a device', () => ({ file: '/dev/zero' }), denied],
  ['in a folder instead of a file', () => ({ file: join(journal, 'deeper') }), { status: 500, code: '107' }],
  ['in a file that is not there', () => ({ file: join(journal, 'none') }), { status: 500, code: '107' }],
  ['behind the end', () => ({ file: join(journal, 'a.sealed'), end: '11' }), { status: 500, code: '107' }],
  ['in an empty range', () => ({ file: join(journal, 'a.sealed'), from: '5' }), wrong],
  ['in a range that is none', () => ({ file: join(journal, 'a.sealed'), from: '-1' }), wrong],
  ['in a range without a file', () => ({}), wrong],
  ['beside a body', () => ({ file: join(journal, 'a.sealed'), data: 'more' }), wrong],
  ['for no insert', () => ({ file: join(journal, 'a.sealed'), query: 'SELECT 1' }), wrong],
  [
    'beyond the bound of a body',
    () => ({ file: join(journal, 'a.sealed'), end: '99999999' }),
    { status: 413, code: '229' },
  ],
  [
    'for somebody without the password',
    () => ({ file: join(journal, 'a.sealed'), headers: {} }),
    { status: 401, code: '516' },
  ],
];
for (const [what, asking, answer] of refusals) {
  test(`rows ${what} are refused`, async () => {
    inserted.length = 0;
    assert.deepEqual(await ask(asking()), answer);
    assert.deepEqual(inserted, []);
  });
}

test('without folders every file is refused', async () => {
  const files = new RowFiles([], new BodyReader({ maxBytes: 10, maxTotalBytes: 10 }));
  const range = { path: join(journal, 'a.sealed'), from: 0, end: 1 };
  await assert.rejects(
    files.withRows(range, () => Promise.resolve()),
    /folders of the journal only/,
  );
});

test('rows of files count as bodies until they are stored', async () => {
  const files = new RowFiles([journal], new BodyReader({ maxBytes: 10, maxTotalBytes: 15 }));
  const range = { path: join(journal, 'a.sealed'), from: 0, end: 10 };
  const read = (use: () => Promise<unknown>) => files.withRows(range, use);
  await read(async () => {
    await assert.rejects(
      read(() => Promise.resolve()),
      /all the memory/,
    );
  });
  assert.equal(await read(() => Promise.resolve('done')), 'done');
});
