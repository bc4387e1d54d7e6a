import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Answer, StreamSource } from '../../../core/pipeline/answer.ts';
import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import type { LogPlace, NewLogsQuery } from '../../../core/ports/analytics.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { defaultSecurity } from '../../../core/ports/organisation-settings.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import {
  TestContext,
  testAnalytics,
  testKey,
  testRouteInput,
  testScope,
} from '../../../tests/kit/plugin-kit.ts';
import { LogStreams } from './stream.ts';

/** The route over a directory that the test changes while streams are open. */
function setting(analytics: Parameters<typeof testAnalytics>[0] = {}) {
  const clock = new ManualClock();
  const keys = new Map<string, KeyRecord>();
  const archived = new Set<string>();
  const asked: NewLogsQuery[] = [];
  let settings = defaultSecurity;
  const { scope } = testScope();
  const whole: Scope = {
    ...scope,
    clock,
    analytics: testAnalytics({
      newLogs(query) {
        asked.push(query);
        return Promise.resolve({
          records: [],
          since: `s${asked.length}`,
          resume: `${asked.length}`,
          left: undefined,
        });
      },
      ...analytics,
    }),
    directory: {
      ...scope.directory,
      keyById: (id) => keys.get(id),
      isArchived: (id) => archived.has(id),
      settingsIn: () => settings,
    },
  };
  const streams = new LogStreams(whole);
  const { route } = streams;
  return {
    clock,
    keys,
    archived,
    asked,
    streams,
    hide: () =>
      (settings = {
        ...settings,
        data_visibility: { ...settings.data_visibility, managersViewAllData: false },
      }),
    /** Opens a stream and collects what it says. */
    async open(key: KeyRecord = testKey(), { query = {}, headers = {} } = {}) {
      const context = new TestContext({ method: 'GET', headers });
      const answer = (await route.handle(testRouteInput({ key, query, context }))) as Answer;
      const said = { text: '', ended: false };
      const source = answer.body as StreamSource;
      source.pipe({
        data: (chunk) => (said.text += chunk.toString()) !== '',
        end: () => (said.ended = true),
        fail: (error) => assert.fail(error),
      });
      await settle();
      return { answer, said, source };
    },
  };
}

test('answers with events that nobody in between keeps', async () => {
  const { open } = setting();
  const { answer } = await open();
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.headers, [
    ...['content-type', 'text/event-stream; charset=utf-8'],
    ...['cache-control', 'no-store', 'x-accel-buffering', 'no'],
  ]);
});

test('asks with the filter, for what the key may see', async () => {
  const { open, asked, clock } = setting();
  await open(testKey(), { query: { status_code: '500,502', search: 'x' } });
  await clock.pass(1000);
  assert.deepEqual(asked, [
    {
      since: undefined,
      filter: { statusCodes: [500, 502], text: 'x' },
      limit: 200,
      visibility: { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' },
    },
    { ...(asked[0] as NewLogsQuery), since: 's1' },
  ]);
});

test('a setting that changes narrows the stream', async () => {
  const { open, asked, clock, hide } = setting();
  await open();
  hide();
  await clock.pass(1000);
  assert.deepEqual(asked.at(-1)?.visibility, {
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    apiKeyId: 'key-1',
    asker: 'key-1',
  });
});

const changes: [string, RegExp, (all: ReturnType<typeof setting>) => void][] = [
  ['the key is deleted', /no such key/, ({ keys }) => keys.clear()],
  ['the key loses its scopes', /may not read/, ({ keys }) => keys.set('key-1', testKey({ scopes: [] }))],
  [
    'the key expires',
    /has expired/,
    ({ keys, clock }) => keys.set('key-1', testKey({ expiresAt: clock.now() })),
  ],
  ['the workspace is archived', /was archived/, ({ archived }) => archived.add('ws-1')],
];
for (const [name, message, change] of changes) {
  test(`the stream ends when ${name}`, async () => {
    const all = setting();
    const key = testKey();
    all.keys.set(key.id, key);
    const { said } = await all.open(key);
    await all.clock.pass(1000);
    assert.ok(!said.ended);
    change(all);
    await all.clock.pass(1000);
    assert.ok(said.ended);
    assert.match(said.text, /^event: end$/m);
    assert.match(said.text, /"reason":"access"/);
    assert.match(said.text, message);
  });
}

test('a key of the configuration is not looked for in the directory', async () => {
  const { open, clock } = setting();
  const { said } = await open(testKey({ id: 'in-yaml' }));
  await clock.pass(5000);
  assert.ok(!said.ended);
});

test('ten streams a key and twenty a gateway, and a place for each that ends', async () => {
  const { open } = setting();
  const first = await open();
  for (let index = 0; index < 9; index += 1) await open();
  await assert.rejects(open(), { code: 'too_many_streams', status: 429 });
  first.source.cancel(new GatewayError('client_closed', 'left'));
  first.source.cancel(new GatewayError('client_closed', 'left'));
  await open();
  await assert.rejects(open(), { code: 'too_many_streams' });
  for (let index = 0; index < 10; index += 1) await open(testKey({ id: `other-${index}` }));
  await assert.rejects(open(testKey({ id: 'late' })), /This gateway serves 20 streams/);
});

test('a store that is away refuses the stream, which then takes no place', async () => {
  let isAway = true;
  const { open } = setting({
    newLogs: () =>
      isAway
        ? Promise.reject(new GatewayError('store_unavailable', 'away'))
        : Promise.resolve({ records: [], since: 's', resume: 'r', left: undefined }),
  });
  for (let index = 0; index < 5; index += 1) await assert.rejects(open(), { code: 'store_unavailable' });
  isAway = false;
  await open();
});

test('goes on where a client was cut off a short while ago, and nowhere else', async () => {
  const { open, asked, clock } = setting();
  const { said, source: before } = await open();
  before.cancel(new GatewayError('client_closed', 'left'));
  const id = /^id: (\S+)$/m.exec(said.text)?.[1] ?? '';
  assert.match(id, /^\d+-1$/);
  const since = async (lastEventId: string): Promise<LogPlace | undefined> => {
    const { source } = await open(testKey(), { headers: { 'last-event-id': lastEventId } });
    source.cancel(new GatewayError('client_closed', 'left'));
    return asked.at(-1)?.since;
  };
  assert.equal(await since(id), '1');
  for (const bad of ['', 'x', '1-1', `${clock.now()}-' OR 1=1`])
    assert.equal(await since(bad), undefined, bad);
  clock.advance(300_001);
  assert.equal(await since(id), undefined);
});

test('a place that the store does not know begins anew', async () => {
  const sinces: (LogPlace | undefined)[] = [];
  const { open, clock } = setting({
    newLogs({ since }) {
      sinces.push(since);
      if (since === 'bad') return Promise.reject(new GatewayError('invalid_request', 'no such place'));
      return Promise.resolve({ records: [], since: 's', resume: 'r', left: undefined });
    },
  });
  const { said } = await open(testKey(), { headers: { 'last-event-id': `${clock.now()}-bad` } });
  assert.deepEqual(sinces, ['bad', undefined]);
  assert.match(said.text, /^event: gap$/m);
  const known = await open(testKey(), { headers: { 'last-event-id': `${clock.now()}-good` } });
  assert.doesNotMatch(known.said.text, /event: gap/);
});

test('previews are asked for when the client wants them', async () => {
  const { open, asked } = setting();
  await open(testKey(), { query: { include: 'preview' } });
  assert.equal(asked[0]?.preview, 160);
});

test('ends with its configuration, and opens no stream afterwards', async () => {
  const { open, streams } = setting();
  const { said } = await open();
  streams.end();
  assert.ok(said.ended);
  assert.match(said.text, /"reason":"restart"/);
  await assert.rejects(open(), { code: 'shutting_down' });
});

test('a workspace out of reach is refused before there is a stream', async () => {
  const { open, asked } = setting();
  await assert.rejects(open(testKey(), { query: { workspace_id: 'other' } }), { code: 'resource_not_found' });
  assert.deepEqual(asked, []);
});
