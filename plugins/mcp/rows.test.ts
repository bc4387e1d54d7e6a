import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, test, type TestContext } from 'node:test';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { createRequestMetrics } from '../../core/http/request-metrics.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { defaultSecurity } from '../../core/ports/organisation-settings.ts';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, until } from '../../tests/kit/http-kit.ts';
import { TestJournal, testKey } from '../../tests/kit/plugin-kit.ts';
import { startStatefulMcpServer } from '../../tests/kit/stateful-mcp-server.ts';
import auth from '../auth/index.ts';
import logger from '../logger/index.ts';
import mcp from './index.ts';

interface Setup {
  /** Answers are JSON; else event streams. */
  readonly isJson?: boolean;
  readonly logging?: Readonly<Record<string, unknown>>;
  readonly mode?: 'full' | 'metadata';
  /** A result that the gateway reads whole. */
  readonly maxResultBytes?: number;
}

/** A gateway in front of one server without sessions, `/tools/mcp`, and the rows that it writes. */
async function start(t: TestContext, { isJson = false, logging = {}, mode = 'full', maxResultBytes }: Setup) {
  const server = await startStatefulMcpServer({
    hasSessions: false,
    isJson,
    more(one) {
      one.registerTool('broken', {}, () => ({ isError: true, content: [{ type: 'text', text: 'no disk' }] }));
      one.registerTool('talks', {}, () => ({
        content: [{ type: 'text', text: '{"error":{"code":1},"isError":true}' }],
      }));
    },
  });
  t.after(() => server.close());
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const limits = maxResultBytes === undefined ? {} : { max_result_bytes: maxResultBytes };
  const options = { servers: { tools: { url: server.url, tools: { broken: limits } } } };
  const journal = new TestJournal();
  const metrics = new RecordingMetrics();
  const gateway = await startTestGateway(t, {
    plugins: [{ plugin: logger, options: logging }, auth, { plugin: mcp, options }],
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
    keys: { ann: testKey({ id: 'ann', userId: 'u-ann', scopes: ['mcp.invoke'] }) },
    journal,
    directory: { settingsIn: (): typeof none => ({ ...none, logging: { mode } }) },
    onSettled: createRequestMetrics(metrics),
  });
  let count = 0;
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-service-api-key': 'ann',
  };
  /** Sends a message, and reads what is recorded of it. */
  const post = async (body: unknown, more: Record<string, string> = {}) => {
    const text = JSON.stringify(body);
    const answer = await send(gateway.url, {
      method: 'POST',
      path: '/tools/mcp',
      headers: { ...headers, ...more },
      body: text,
    });
    await gateway.untilSettled((count += 1));
    const row = journal.rows<Partial<RequestRow>>('requests')[count - 1] as Partial<RequestRow>;
    const kept = journal.rows<BodyRow>('bodies').find(({ id }) => id === row.id);
    return { answer, row, kept };
  };
  return { server, gateway, journal, metrics, headers, post };
}

const none = { ...withoutStore.settingsIn('', ''), ...defaultSecurity };

const call = (name: string, given: object = {}, meta?: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: given, ...(meta !== undefined && { _meta: meta }) },
});

for (const isJson of [true, false]) {
  test(`a call leaves a row that says which tool of which server, answers as ${isJson ? 'JSON' : 'events'}`, async (t) => {
    const { post } = await start(t, { isJson });
    const asked = call('add', { a: 2, b: 3 });
    const { row, kept, answer } = await post(asked);
    assert.equal(answer.status, 200, answer.text);
    const { id, latency_ms, upstream_ms, request_bytes, response_bytes, ...rest } = row;
    const { endpoint, method, status, outcome, is_success, error_source, finish_reason } = rest;
    assert.deepEqual(
      { endpoint, method, status, outcome, is_success, error_source, finish_reason },
      {
        endpoint: 'mcp.tools.call',
        method: 'POST',
        status: 200,
        outcome: 'completed',
        is_success: true,
        error_source: undefined,
        finish_reason: undefined,
      },
    );
    assert.deepEqual(
      [rest.ai_service, rest.mcp_server, rest.mcp_tool, rest.provider, rest.model, rest.stream],
      ['mcp', 'tools', 'add', undefined, undefined, isJson ? undefined : true],
    );
    assert.deepEqual([rest.api_key_id, rest.user_id, rest.attempts], ['ann', 'u-ann', 1]);
    assert.deepEqual([rest.pricing, rest.cost], ['none', '0']);
    assert.deepEqual([request_bytes, response_bytes], [JSON.stringify(asked).length, answer.body.length]);
    const shares = { upstream: upstream_ms ?? 0, whole: latency_ms ?? 0, first: rest.first_byte_ms ?? 0 };
    const isTimed = shares.first > 0 && shares.upstream > 0 && shares.upstream <= shares.whole;
    assert.equal(isTimed, true, JSON.stringify(shares));
    assert.equal(kept?.id, id);
    assert.deepEqual(JSON.parse(kept?.request ?? '').params.arguments, { a: 2, b: 3 });
    assert.match(kept?.response ?? '', /"text":"5"/);
    assert.equal(kept?.log_format, isJson ? 'json' : 'sse');
  });

  for (const maxResultBytes of [undefined, 1000]) {
    const how = maxResultBytes === undefined ? 'passed on as it comes' : 'read whole by the gateway';
    test(`a failure inside of an answer is in its row, ${isJson ? 'JSON' : 'events'}, ${how}`, async (t) => {
      const { post, metrics } = await start(t, {
        isJson,
        ...(maxResultBytes !== undefined && { maxResultBytes }),
      });
      const failing: [unknown, string][] = [
        [call('broken'), 'tool_error'],
        [{ jsonrpc: '2.0', id: 1, method: 'no/such' }, 'error'],
      ];
      for (const [message, reason] of failing) {
        const { row } = await post(message);
        assert.deepEqual(
          [row.status, row.outcome, row.is_success, row.error_source, row.finish_reason],
          [200, 'completed', undefined, 'provider', reason],
        );
      }
      const { row } = await post(call('talks'));
      assert.deepEqual([row.is_success, row.finish_reason], [true, undefined]);
      const labels = 'provider=tools,endpoint=mcp.tools.call,status=200,outcome=failed_in_answer';
      const counted = [...metrics.values].filter(([name]) => name.startsWith('weir_requests_total{'));
      assert.ok(
        counted.some(([name, value]) => name.includes(labels) && value === 1),
        JSON.stringify(counted),
      );
    });
  }
}

test('each method of the protocol has its own name, and others share one', async (t) => {
  const { post } = await start(t, { isJson: true });
  const ask = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 1, method, params });
  const cases: [unknown, string][] = [
    [ask('tools/list'), 'mcp.tools.list'],
    [ask('prompts/list'), 'mcp.prompts.list'],
    [ask('prompts/get', { name: 'greet' }), 'mcp.prompts.get'],
    [ask('resources/list'), 'mcp.resources.list'],
    [ask('resources/templates/list'), 'mcp.resources.templates.list'],
    [ask('resources/read', { uri: 'note://one' }), 'mcp.resources.read'],
    [ask('ping'), 'mcp.ping'],
    [ask('constructor'), 'mcp'],
    [ask('invented/by/the/caller'), 'mcp'],
    [{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 9 } }, 'mcp.notification'],
    [{ jsonrpc: '2.0', id: 9, result: {} }, 'mcp.response'],
    [[ask('ping'), ask('tools/list')], 'mcp.batch'],
    [{ id: 1 }, 'mcp'],
  ];
  for (const [body, endpoint] of cases) {
    const { row } = await post(body);
    assert.equal(row.endpoint, endpoint, JSON.stringify(body));
    assert.equal(row.mcp_tool, undefined);
  }
});

test('a stream of a server is one row when the client leaves: completed, its length in upstream_ms, no latency', async (t) => {
  const { gateway, journal, headers } = await start(t, {});
  const request = http.get(`${gateway.url}/tools/mcp`, {
    headers: { ...headers, accept: 'text/event-stream' },
  });
  request.on('error', () => undefined);
  await new Promise<void>((resolve) => request.once('response', () => resolve()));
  const openMs = 120;
  await new Promise<void>((resolve) => void realClock.after(openMs, resolve));
  request.destroy();
  await gateway.untilSettled();
  const [row] = journal.rows<Partial<RequestRow>>('requests');
  assert.deepEqual(
    [
      row?.endpoint,
      row?.method,
      row?.status,
      row?.outcome,
      row?.is_success,
      row?.error_code,
      row?.mcp_server,
    ],
    ['mcp.listen', 'GET', 200, 'completed', true, undefined, 'tools'],
  );
  const { latency_ms: latency = Infinity, upstream_ms: length = 0 } = row ?? {};
  assert.ok(length >= openMs && latency < length, JSON.stringify(row));
});

describe('the rules of the log hold for arguments and results', () => {
  const secret = call('add', { a: 2, b: 3, note: 'mail ann@example.com' });
  const cases: [string, Setup, Record<string, string>][] = [
    ['the operator keeps none', { logging: { bodies: false } }, {}],
    ['the workspace keeps none', { mode: 'metadata' }, {}],
    ['the request wants none', {}, { 'x-service-debug': 'false' }],
  ];
  for (const [name, setup, headers] of cases)
    test(name, async (t) => {
      const { post, journal } = await start(t, setup);
      const { row } = await post(secret, headers);
      assert.deepEqual([row.mcp_tool, row.is_success], ['add', true]);
      assert.deepEqual(journal.lines.bodies, []);
      assert.doesNotMatch(journal.lines.requests.join(), /ann@example/);
    });

  for (const isJson of [true, false])
    test(`what is redacted is gone from both, answers as ${isJson ? 'JSON' : 'events'}`, async (t) => {
      const { post, server, journal } = await start(t, {
        isJson,
        logging: { redact: [{ pattern: 'email' }] },
      });
      const { answer } = await post(call('nobody@example.com', { note: 'mail ann@example.com' }));
      assert.match(answer.text, /nobody@example\.com/, 'the client sees what the server says');
      assert.match(server.requests[0]?.body ?? '', /ann@example\.com/);
      await until(() => journal.lines.bodies.length > 0, 'the bodies, which are searched beside');
      const [kept] = journal.rows<BodyRow>('bodies');
      assert.match(kept?.request ?? '', /"tools\/call"/);
      assert.match(kept?.response ?? '', /not found/);
      assert.doesNotMatch(`${kept?.request}${kept?.response}`, /@example/);
    });
});

describe('the trace of the model call that asked for a tool', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const parent = `00-${traceId}-b7ad6b7169203331-01`;
  const other = '00-11111111111111111111111111111111-2222222222222222-00';

  test('is joined as `_meta.traceparent` says it, and the server gets the span of the gateway there', async (t) => {
    const { post, server } = await start(t, {});
    const { row } = await post(call('add', { a: 1, b: 1 }, { traceparent: parent, progressToken: 7 }));
    assert.deepEqual(
      [row.trace_id, row.parent_span_id, row.span_name],
      [traceId, 'b7ad6b7169203331', 'tools/call add'],
    );
    assert.match(row.span_id ?? '', /^[0-9a-f]{16}$/);
    const own = `00-${traceId}-${row.span_id}-01`;
    assert.equal(server.requests[0]?.headers['traceparent'], own);
    assert.deepEqual(JSON.parse(server.requests[0]?.body ?? '').params._meta, {
      traceparent: own,
      progressToken: 7,
    });
  });

  test('headers win over it', async (t) => {
    const { post, server } = await start(t, {});
    const { row } = await post(call('add', { a: 1, b: 1 }, { traceparent: other }), { traceparent: parent });
    assert.deepEqual([row.trace_id, row.parent_span_id], [traceId, 'b7ad6b7169203331']);
    const { _meta: meta } = JSON.parse(server.requests[0]?.body ?? '').params;
    assert.deepEqual(meta, { traceparent: server.requests[0]?.headers['traceparent'] });
    const named = await post(call('add', { a: 1, b: 1 }, { traceparent: other }), {
      'x-service-trace-id': 'mine',
    });
    assert.equal(named.row.trace_id, 'mine');
  });

  for (const meta of [{ traceparent: 'ff-no' }, { traceparent: 7 }, { other: 1 }, undefined])
    test(`is left alone where there is none: ${JSON.stringify(meta)}`, async (t) => {
      const { post, server } = await start(t, {});
      const { row } = await post(call('add', { a: 1, b: 1 }, meta));
      assert.deepEqual([row.trace_id, row.parent_span_id, row.span_name], [row.id, undefined, undefined]);
      assert.deepEqual(JSON.parse(server.requests[0]?.body ?? '').params._meta, meta);
    });

  test('messages of a list join the first one that is named', async (t) => {
    const { post, server } = await start(t, { isJson: true });
    const { row } = await post([call('add', { a: 1, b: 1 }, { traceparent: parent }), call('secret')]);
    assert.equal(row.trace_id, traceId);
    assert.equal(
      JSON.parse(server.requests[0]?.body ?? '').params._meta.traceparent,
      `00-${traceId}-${row.span_id}-01`,
    );
  });
});
