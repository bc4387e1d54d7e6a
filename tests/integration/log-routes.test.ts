// The log as its readers see it: lists, searches, traces, what is reported, and a live stream.
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { begin, send, type Received } from '../kit/http-kit.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

const teamA = 'wk_team_a_0123456789abcdef';
const teamB = 'wk_team_b_0123456789abcdef';
let weir: WeirProcess;

before(async () => {
  if (chdbMissing) return;
  const scopes = ['completions.write', 'logs.view', 'logs.list', 'logs.write'];
  const keys = [
    { name: 'team-a', key: teamA, workspace_id: 'ws-a', scopes },
    { name: 'team-b', key: teamB, workspace_id: 'ws-b', scopes },
  ];
  weir = await startWeir({
    yaml: {
      version: 1,
      storage: { journal: { ship_ms: 50 } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: [{ auth: { keys } }, 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: [{ auth: { keys } }, 'provider', 'logger'] },
      ],
    },
  });
});
after(() => stopEverything());

async function chat(key: string, content: string, headers: Record<string, string> = {}): Promise<string> {
  const received = await send(weir.url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': key, 'x-service-provider': 'mock', ...headers },
    body: { model: 'mock-gpt', messages: [{ role: 'user', content }] },
  });
  assert.equal(received.status, 200, received.text);
  return received.headers['x-service-request-id'] as string;
}

const read = (path: string, key: string, body?: unknown): Promise<Received> =>
  send(weir.url, {
    path: `/v1${path}`,
    headers: { 'x-service-api-key': key },
    ...(body !== undefined && { body }),
  });

async function listed(query: string, key: string): Promise<string[]> {
  const received = await read(`/logs?${query}`, key);
  assert.equal(received.status, 200, received.text);
  return received.json().data.map(({ id }: { id: string }) => id);
}

/** Waits until the list holds these entries, and gives it. */
const listedWith = (query: string, key: string, ids: readonly string[]): Promise<string[]> =>
  eventually(
    async () => {
      const found = await listed(query, key);
      return ids.every((id) => found.includes(id)) ? found : undefined;
    },
    () => `entries of ${query}; the gateway says:\n${weir.stderr()}`,
  );

/** The events of a stream as they come. */
function eventsOf(response: IncomingMessage) {
  let text = '';
  response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  return {
    text: () => text,
    events: () =>
      text.split('\n\n').flatMap((frame) => {
        const name = /^event: (\w+)$/m.exec(frame)?.[1];
        const data = /^data: (.*)$/m.exec(frame)?.[1];
        return name === undefined || data === undefined ? [] : [{ name, data: JSON.parse(data) }];
      }),
  };
}

describe('the routes of the log', { skip: chdbMissing }, () => {
  test('entries are listed, paged and searched, of the own workspace alone', async () => {
    const ids: string[] = [];
    for (const content of ['a first Needle', 'a second one', 'a third NEEDLE'])
      ids.push(await chat(teamA, content));
    const other = await chat(teamB, 'the needle of others');
    await listedWith('', teamB, [other]);
    const all = await listedWith('order=oldest', teamA, ids);
    assert.ok(!all.includes(other));
    assert.deepEqual(
      all.filter((id) => ids.includes(id)),
      ids,
    );
    const page = (await read('/logs?page_size=2', teamA)).json();
    assert.deepEqual([page.data.length, page.has_more], [2, true]);
    const rest = await listed(`page_size=2&cursor=${page.next_cursor}`, teamA);
    assert.ok(!rest.some((id) => page.data.some((entry: { id: string }) => entry.id === id)));
    const found = await eventually(
      async () => {
        const some = await listed('search=needle', teamA);
        return some.length === 2 ? some : undefined;
      },
      () => 'both bodies',
    );
    assert.deepEqual(new Set(found), new Set([ids[0], ids[2]]));
    assert.ok((await listedWith('search=needle', ownerKey, [other])).includes(ids[0] as string));
    const bad = await read('/logs?cursor=bm9uZQ', teamA);
    assert.deepEqual([bad.status, bad.json().error?.param ?? 'cursor'], [400, 'cursor']);
  });

  test('a trace is a tree', async () => {
    const trace = { 'x-service-trace-id': 'journey' };
    await chat(teamA, 'plan', { ...trace, 'x-service-span-id': 'root', 'x-service-span-name': 'plan' });
    const child = { 'x-service-span-id': 'leaf', 'x-service-parent-span-id': 'root' };
    await chat(teamA, 'act', { ...trace, ...child });
    const tree = await eventually(
      async () => {
        const received = await read('/traces/journey', teamA);
        return received.status === 200 && received.json().requests === 2 ? received.json() : undefined;
      },
      () => 'the trace',
    );
    assert.deepEqual(
      tree.spans.map((span: { name: string; children: { span_id: string }[] }) => [
        span.name,
        span.children.map(({ span_id: id }) => id),
      ]),
      [['plan', ['leaf']]],
    );
    assert.equal((await read('/traces/journey', teamB)).status, 404);
    const traces = (await read('/traces?trace_id=journey', teamA)).json();
    assert.deepEqual([traces.total, traces.data[0].requests, traces.data[0].trace_id], [1, 2, 'journey']);
    assert.equal(traces.data[0].total_tokens, tree.total_tokens);
  });

  test('what is reported is an entry like any other', async () => {
    const request = {
      url: 'https://api.openai.com/v1/chat/completions?key=hidden',
      body: { model: 'gpt-4o-mini' },
    };
    const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
    const response = { status: 200, body: { model: 'gpt-4o-mini', choices: [], usage }, response_time: 250 };
    const metadata = { trace_id: 'reported', span_name: 'elsewhere', _user: 'ann' };
    const posted = await read('/logs', teamA, [{ request, response, metadata }]);
    assert.equal(posted.status, 200, posted.text);
    const [id] = posted.json().ids;
    await listedWith('trace_id=reported&user=ann', teamA, [id]);
    const entry = (await read(`/logs/${id}`, teamA)).json();
    const { metrics } = entry;
    assert.deepEqual(
      [metrics.source, metrics.ai_org, metrics.total_units, metrics.response_time],
      ['api', 'openai', 1100, 250],
    );
    assert.ok(metrics.cost > 0 && metrics.pricing === 'priced');
    assert.deepEqual([entry.request.body, entry.response.body], [request.body, response.body]);
    assert.doesNotMatch(JSON.stringify(entry), /hidden/);
    assert.equal((await read(`/logs/${id}`, teamB)).status, 404);
  });

  test('the stream shows what its filter lets through, of its own workspace, and ends with the gateway', async () => {
    const watched = await begin(weir.url, {
      method: 'GET',
      path: '/v1/logs/stream?search=visible',
      headers: { 'x-service-api-key': teamA },
    });
    assert.equal(watched.response.statusCode, 200);
    assert.match(String(watched.response.headers['content-type']), /^text\/event-stream/);
    const stream = eventsOf(watched.response);
    const before = await chat(teamA, 'Visible before');
    await chat(teamA, 'not of interest');
    await chat(teamB, 'visible to others');
    const after = await chat(teamA, 'visible after');
    await eventually(
      () => Promise.resolve(stream.events().some(({ data }) => data.id === after) || undefined),
      () => `the event; the stream said:\n${stream.text()}`,
    );
    assert.deepEqual(
      stream.events().map(({ name, data }) => [name, data.id]),
      [
        ['log', before],
        ['log', after],
      ],
    );
    const ended = new Promise((resolve) => watched.response.on('end', resolve));
    await weir.stop();
    await ended;
    assert.deepEqual(stream.events().at(-1)?.data.reason, 'restart');
  });
});
