import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { eventOf, initializeResult, rpcAnswer, type McpScript } from '../../tests/kit/mcp-server.ts';
import { failure, keepingLog, scripted, untilClosed } from './mcp.test-support.ts';
import { mcpLimits } from './conversation-fetch.ts';
import { protocolLibrary } from './conversation.ts';

const tool = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' }, ...more });
const tools = (count: number, from = 0) => Array.from({ length: count }, (_, i) => tool(`t${from + i}`));
const events = { 'content-type': 'text/event-stream' };

before(protocolLibrary);

test('the bounds that are promised', () => {
  const { timeoutMs, maxBytes, maxOffers, maxDescribedBytes } = mcpLimits;
  assert.deepEqual([timeoutMs, maxBytes, maxOffers, maxDescribedBytes], [15_000, 8_388_608, 1_000, 65_536]);
});

describe('what one conversation may bring', () => {
  test('pages are put together, each asked for with the cursor of the one before', async (t) => {
    const { server, clients, at } = await scripted(t, {
      results: {
        'tools/list': (params) => {
          const page = Number(params?.['cursor'] ?? 0);
          return { tools: tools(2, page * 2), ...(page < 2 ? { nextCursor: String(page + 1) } : {}) };
        },
      },
    });
    const { offers } = await clients.describe(at());
    assert.deepEqual(
      offers.map(({ name }) => name),
      ['t0', 't1', 't2', 't3', 't4', 't5'],
    );
    const cursors = server.requests.flatMap(({ message }) =>
      message?.method === 'tools/list' ? [message.params?.['cursor']] : [],
    );
    assert.deepEqual(cursors, [undefined, '1', '2']);
  });

  test('a server that gives the same cursor for ever is asked twice', async (t) => {
    const log = keepingLog();
    const results = { 'tools/list': { tools: tools(1), nextCursor: 'again' } };
    const { server, clients, at } = await scripted(t, { results }, { log });
    assert.deepEqual((await clients.describe(at())).offers.length, 1);
    assert.equal(server.requests.filter(({ message }) => message?.method === 'tools/list').length, 2);
    assert.match(JSON.stringify(log.lines), /tools: the pages after the first 2/);
  });

  test('so many pages of a list and no more', async (t) => {
    const log = keepingLog();
    let page = 0;
    const results = { 'tools/list': () => ({ tools: tools(1, page), nextCursor: String(++page) }) };
    const { clients, at } = await scripted(t, { results }, { log, limits: { maxPages: 3 } });
    assert.deepEqual((await clients.describe(at())).offers.length, 3);
    assert.match(JSON.stringify(log.lines), /tools: the pages after the first 3/);
  });

  test('1,000 offers of a type, the first of them; more are told to the log', async (t) => {
    const log = keepingLog();
    const results = {
      initialize: { ...initializeResult, capabilities: { tools: {}, prompts: {} } },
      'tools/list': { tools: tools(1_003), nextCursor: 'more' },
      'prompts/list': { prompts: [{ name: 'p' }] },
    };
    const { server, clients, at } = await scripted(t, { results }, { log });
    const { offers } = await clients.describe(at());
    assert.deepEqual([offers.length, offers[999]?.name, offers[1_000]?.name], [1_001, 't999', 'p']);
    assert.equal(server.requests.filter(({ message }) => message?.method === 'tools/list').length, 1);
    const { fields } = log.lines[0] ?? {};
    assert.deepEqual(fields, {
      host: server.host,
      leftOut: ['tools: the pages after the first 1003', 'tools: 3 over 1000'],
    });
  });

  test('of an offer, the members that fit', async (t) => {
    const log = keepingLog();
    const description = 'x'.repeat(65_536);
    const results = { 'tools/list': { tools: [tool('large', { title: 'L', description }), tool('small')] } };
    const { clients, at } = await scripted(t, { results }, { log });
    const [large, small] = (await clients.describe(at())).offers;
    assert.deepEqual(large?.described, { title: 'L', inputSchema: { type: 'object' } });
    assert.equal(small?.name, 'small');
    assert.match(JSON.stringify(log.lines), /tools: 1 members that are too large/);
    assert.doesNotMatch(JSON.stringify(log.lines), /xxx|small/);
  });

  test('an offer whose name is empty, too long or taken is left out', async (t) => {
    const log = keepingLog();
    const named = [tool(''), tool('n'.repeat(1_025)), tool('a'), tool('a'), tool('m'.repeat(1_024))];
    const { clients, at } = await scripted(t, { results: { 'tools/list': { tools: named } } }, { log });
    const { offers } = await clients.describe(at());
    assert.deepEqual(
      offers.map(({ name }) => name.length),
      [1, 1_024],
    );
    assert.match(JSON.stringify(log.lines), /tools: 3 whose names are empty, too long or taken/);
  });

  test('what a server calls itself, and its capabilities', async (t) => {
    const log = keepingLog();
    const experimental = { big: { text: 'y'.repeat(65_536) } };
    const initialize = {
      ...initializeResult,
      capabilities: { tools: {}, experimental },
      serverInfo: { name: `a\0${'b'.repeat(2_000)}`, version: 'v'.repeat(2_000) },
    };
    const { clients, at } = await scripted(t, { results: { initialize } }, { log });
    const said = await clients.describe(at());
    assert.deepEqual([said.serverName.length, said.serverVersion.length], [1_024, 1_024]);
    assert.ok(said.serverName.startsWith('a\ufffdb'));
    assert.deepEqual(said.capabilityFlags, { tools: {} });
    assert.match(JSON.stringify(log.lines), /capabilities: members that are too large/);
  });
});

describe('what ends a conversation', () => {
  const limits = { maxBytes: 20_000, maxLines: 500, maxRequests: 6, maxRequestsAtOnce: 4, graceMs: 20 };
  const large = tools(1).map((one) => ({ ...one, description: 'x'.repeat(20_000) }));

  for (const [transport, streams] of [
    ['http', false],
    ['http', true],
    ['sse', true],
  ] as const) {
    test(`${transport}, ${streams ? 'streamed' : 'as one answer'}: more bytes than are allowed`, async (t) => {
      const script: McpScript = { streams, results: { 'tools/list': { tools: large } } };
      const { server, clients, at } = await scripted(t, script, { limits });
      const error = await failure(clients.describe(at(transport)));
      assert.match(`${error.code} ${error.message}`, /mcp_failed.*it sends more than 20000 bytes/);
      await untilClosed(server);
    });
  }

  test('bytes of all answers count together', async (t) => {
    let page = 0;
    const description = 'x'.repeat(6_000);
    const results = {
      'tools/list': () => ({ tools: [tool(`t${page}`, { description })], nextCursor: String(++page) }),
    };
    const { clients, at } = await scripted(t, { results }, { limits: { maxBytes: 20_000 } });
    assert.match((await failure(clients.describe(at()))).message, /more than 20000 bytes/);
    assert.equal(page, 4);
  });

  for (const [name, line] of [
    ['LF', ':\n'],
    ['CR', ':\r'],
    ['CRLF', ':\r\n'],
  ] as const) {
    test(`a flood of lines that end in ${name}`, async (t) => {
      const { server, clients, at } = await scripted(
        t,
        {
          intercept: ({ method }, response) =>
            method === 'GET' && Boolean(response.writeHead(200, events).write(line.repeat(501))),
        },
        { limits },
      );
      const error = await failure(clients.describe(at('sse')));
      assert.match(`${error.code} ${error.message}`, /mcp_failed.*more than 500 lines/);
      await untilClosed(server);
    });
  }

  test('a server that asks and asks is answered so many times', async (t) => {
    const pings = Array.from({ length: 50 }, (_, id) => ({ jsonrpc: '2.0', id: `p${id}`, method: 'ping' }));
    const stream = pings.map((ping) => eventOf('message', JSON.stringify(ping))).join('');
    const { server, clients, at } = await scripted(
      t,
      {
        intercept: ({ message }, response) =>
          message?.method === 'tools/list' && Boolean(response.writeHead(200, events).end(stream)),
      },
      { limits },
    );
    const error = await failure(clients.describe(at()));
    assert.match(`${error.code} ${error.message}`, /mcp_failed.*more requests than are allowed/);
    await untilClosed(server);
    assert.ok(server.requests.length <= limits.maxRequests, `${server.requests.length} requests`);
  });

  test('more pages than requests', async (t) => {
    let page = 0;
    const results = { 'tools/list': () => ({ tools: tools(1, page), nextCursor: String(++page) }) };
    const { server, clients, at } = await scripted(t, { results }, { limits });
    const error = await failure(clients.describe(at()));
    assert.match(`${error.code} ${error.message}`, /mcp_failed.*more requests than are allowed/);
    assert.equal(server.requests.length, limits.maxRequests);
  });

  test('so many conversations at once and no more; an ended one makes room', async (t) => {
    let held: (() => void)[] = [];
    const { clients, at } = await scripted(
      t,
      {
        intercept({ message = {} }, response) {
          if (message.method !== 'initialize') return false;
          const answer = () =>
            response.writeHead(200, { 'content-type': 'application/json' }).end(rpcAnswer({}, message));
          held.push(answer);
          return true;
        },
      },
      { limits: { maxConversations: 2 } },
    );
    const two = [clients.greet(at()), clients.greet(at())];
    await eventually(() => held.length === 2 || undefined);
    const error = await failure(clients.greet(at()));
    assert.match(`${error.code} ${error.message}`, /mcp_failed.*2 handshakes are under way/);
    for (const answer of held) answer();
    await Promise.all(two);
    held = [];
    const third = clients.greet(at());
    await eventually(() => held.length === 1 || undefined);
    held[0]?.();
    await third;
  });

  for (const [timeoutMs, goodbyeMs] of [
    [10_000, 30],
    [1_000, 10_000],
  ] as const) {
    test(`a goodbye that is not answered takes ${goodbyeMs} of ${timeoutMs} ms, and spoils nothing`, async (t) => {
      const waits: number[] = [];
      const clock: Clock = {
        ...systemClock,
        after(ms, run) {
          waits.push(ms);
          return systemClock.after(ms, run);
        },
      };
      const { server, clients, at } = await scripted(
        t,
        { session: 's', intercept: ({ method }) => method === 'DELETE' },
        { clock, limits: { timeoutMs, goodbyeMs } },
      );
      assert.deepEqual(await clients.greet(at()), { serverName: 'scripted' });
      await untilClosed(server);
      assert.equal(waits.length, 2);
      assert.ok((waits[1] as number) <= Math.min(timeoutMs, goodbyeMs), String(waits));
    });
  }
});
