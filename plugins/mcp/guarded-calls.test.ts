// Guardrails on calls of tools, with a real server behind the gateway.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { z } from 'zod';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { startStatefulMcpServer } from '../../tests/kit/stateful-mcp-server.ts';
import auth from '../auth/index.ts';
import guardrails from '../guardrails/index.ts';
import mcp from './index.ts';
import type { McpOptions, ServerOptions } from './options.ts';

interface Setting {
  readonly own?: Partial<ServerOptions>;
  readonly more?: McpOptions;
  readonly isJson?: boolean;
  readonly isJudging?: boolean;
}

const without = (word: string) => ({
  'default.contains': { words: [word], operator: 'none' },
  deny: true,
  id: `no-${word}`,
});
const masked = { 'default.regexReplace': { rule: 'Initech', redactText: '[firm]' } };

/** A gateway in front of one server, `/tools/mcp`, with the tool `echo`. */
async function start(t: TestContext, { own = {}, more = {}, isJson = true, isJudging = true }: Setting) {
  const server = await startStatefulMcpServer({
    hasSessions: false,
    isJson,
    more: (one) =>
      void one.registerTool('echo', { inputSchema: { text: z.string() } }, ({ text }) => ({
        content: [{ type: 'text', text }],
      })),
  });
  t.after(() => server.close());
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const options = { servers: { tools: { url: server.url, ...own } }, ...more };
  const gateway = await startTestGateway(t, {
    plugins: [auth, ...(isJudging ? [guardrails] : []), { plugin: mcp, options }],
    keys: { ann: testKey({ id: 'ann', scopes: ['mcp.invoke'] }) },
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
  });
  const post = async (message: unknown, headers: Record<string, string> = {}, path = '/tools/mcp') => {
    const answer = await send(gateway.url, {
      path,
      headers: {
        accept: 'application/json, text/event-stream',
        'x-service-api-key': 'ann',
        ...headers,
      },
      body: message,
    });
    const isStream = String(answer.headers['content-type']).startsWith('text/event-stream');
    const text = isStream ? (/^data: (.*)$/m.exec(answer.text)?.[1] ?? '') : answer.text;
    const session = answer.headers['mcp-session-id'] as string | undefined;
    return { status: answer.status, session, json: text === '' ? undefined : JSON.parse(text) };
  };
  const sent = () =>
    server.requests.flatMap(({ body }) => {
      const { method, params } = body === '' ? {} : JSON.parse(body);
      return method === 'tools/call' ? [params.arguments] : [];
    });
  /** Headers that repeat parts of a message, of the last request with this method. */
  const repeated = (method: string) => {
    const last = server.requests.findLast(({ body }) => body !== '' && JSON.parse(body).method === method);
    const names = Object.keys(last?.headers ?? {}).filter((name) => /^mcp-(?:method|name|param-)/.test(name));
    return Object.fromEntries(names.map((name) => [name, last?.headers[name]]));
  };
  return { gateway, post, sent, repeated };
}

const echo = (text: string, id = 1, name = 'echo') => ({
  ...{ jsonrpc: '2.0', id, method: 'tools/call' },
  params: { name, arguments: { text } },
});

describe('guardrails of a server in the configuration', () => {
  test('a call whose arguments are denied is not sent; the answer says which check and why', async (t) => {
    const { post, sent, gateway } = await start(t, { own: { input_guardrails: [without('rm')] } });
    const { status, json } = await post(echo('rm -rf', 7));
    assert.deepEqual([status, json.id, json.error.data.code], [200, 7, 'hooks_failed']);
    assert.match(json.error.message, /guardrail "no-rm" refused the call/);
    assert.equal(json.error.data.hook_results.before_request_hooks[0].verdict, false);
    assert.deepEqual(sent(), []);
    const { facts } = await gateway.untilSettled(1);
    assert.deepEqual([facts.mcpServer, facts.mcpTool], ['tools', 'echo']);
    assert.deepEqual(
      facts.verdicts.map(({ name, verdict }) => [name, verdict]),
      [['no-rm/default.contains', 'refused']],
    );
  });

  for (const isJson of [true, false]) {
    const form = isJson ? 'JSON' : 'an event stream';

    test(`a denied result does not leave, answers as ${form}`, async (t) => {
      const { post, gateway } = await start(t, { isJson, own: { output_guardrails: [without('Initech')] } });
      const { status, json } = await post(echo('of Initech', 3));
      assert.deepEqual(
        [status, json.id, json.result, json.error.data.code],
        [200, 3, undefined, 'hooks_failed'],
      );
      assert.doesNotMatch(JSON.stringify(json), /of Initech/);
      assert.equal((await gateway.untilSettled(1)).facts.answerFailed, true);
    });

    test(`arguments and results are changed, answers as ${form}`, async (t) => {
      const { post, sent } = await start(t, { isJson, own: { input_guardrails: [masked] } });
      const { json } = await post(echo('of Initech'));
      assert.deepEqual(sent(), [{ text: 'of [firm]' }]);
      assert.equal(json.result.content[0].text, 'of [firm]');
      assert.equal(json.result._meta.hook_results.before_request_hooks[0].transformed, true);
      const other = await start(t, { isJson, own: { output_guardrails: [masked] } });
      assert.equal((await other.post(echo('of Initech'))).json.result.content[0].text, 'of [firm]');
      assert.deepEqual(other.sent(), [{ text: 'of Initech' }]);
    });
  }

  test('hold behind virtual servers, under the other names that tools have there', async (t) => {
    const { post, sent } = await start(t, {
      own: { input_guardrails: [without('rm')] },
      more: { virtual_servers: { desk: { tools: [{ server: 'tools', tool: 'echo', name: 'say' }] } } },
    });
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    };
    const greeting = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
    const { session } = await post(greeting, {}, '/desk/mcp');
    const { json } = await post(echo('rm', 1, 'say'), { 'mcp-session-id': session ?? '' }, '/desk/mcp');
    assert.match(json.error.message, /guardrail "no-rm" refused the call/);
    assert.deepEqual(sent(), []);
  });

  test('each call of a batch is judged by itself, and no answer is lost', async (t) => {
    const { post, sent } = await start(t, { own: { input_guardrails: [without('rm')] } });
    const { status, json } = await post([echo('one', 1), echo('rm', 2), echo('three', 3)]);
    assert.equal(status, 200);
    assert.deepEqual(
      json.map(({ id, error }: { id: number; error?: { data: { code: string } } }) => [id, error?.data.code]),
      [
        [1, undefined],
        [2, 'hooks_failed'],
        [3, undefined],
      ],
    );
    assert.deepEqual(sent(), [{ text: 'one' }, { text: 'three' }]);
  });
});

describe('headers that repeat parts of a call, as from 2026-07-28 on', () => {
  const given = (more: Record<string, string>) => ({
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
    ...more,
  });

  test('hold the arguments as a guardrail has changed them, and nothing that it has taken out', async (t) => {
    const { post, sent, repeated } = await start(t, { own: { input_guardrails: [masked] } });
    const headers = given({ 'mcp-param-text': 'of Initech', 'mcp-param-other': 'Initech, too' });
    assert.equal((await post(echo('of Initech'), headers)).status, 200);
    assert.deepEqual(sent(), [{ text: 'of [firm]' }]);
    assert.deepEqual(repeated('tools/call'), given({ 'mcp-param-text': 'of [firm]' }));
    const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
    await post(echo('für Initech'), given({ 'mcp-param-firm': base64('für Initech') }));
    assert.deepEqual(repeated('tools/call'), given({ 'mcp-param-firm': base64('für [firm]') }));
  });

  test('of two arguments with the same text, hold the one that they are named after', async (t) => {
    const own = { input_guardrails: [masked] };
    const { post, sent, repeated } = await start(t, { own });
    const call = (more: Record<string, unknown>) => ({
      ...echo('Initech'),
      params: { name: 'echo', arguments: { text: 'Initech', ...more } },
    });
    const more = { count: 3, isUrgent: true, place: { deskId: 'Initech' } };
    const headers = { 'mcp-param-Desk-Id': 'Initech', 'mcp-param-a': '3.0', 'mcp-param-b': 'true' };
    await post(call(more), given(headers));
    const [{ place }] = sent();
    assert.deepEqual(
      repeated('tools/call'),
      given({ 'mcp-param-desk-id': place.deskId, 'mcp-param-a': '3', 'mcp-param-b': 'true' }),
    );
  });

  test('stay as they came where no argument is changed', async (t) => {
    const { post, repeated } = await start(t, { own: { input_guardrails: [without('rm')] } });
    const lies = { 'mcp-param-text': 'anything', 'mcp-name': 'another', 'mcp-method': 'tools/list' };
    for (const headers of [given({ 'mcp-param-text': 'ls' }), lies]) {
      await post(echo('ls'), headers);
      assert.deepEqual(repeated('tools/call'), headers, 'the server judges them');
    }
  });

  test("name the tool as its server knows it, and the method of the gateway's own request", async (t) => {
    const { post, repeated } = await start(t, {
      own: { tools: { echo: { digest: `sha256:${'0'.repeat(64)}` } } },
      more: { virtual_servers: { desk: { tools: [{ server: 'tools', tool: 'echo', name: 'say' }] } } },
    });
    await post(echo('ls'), given({ 'mcp-param-text': 'ls' }));
    assert.deepEqual(repeated('tools/list'), { 'mcp-method': 'tools/list' });
    assert.deepEqual(repeated('tools/call'), {}, 'held back');
    const open = await start(t, {
      more: { virtual_servers: { desk: { tools: [{ server: 'tools', tool: 'echo', name: 'say' }] } } },
    });
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    };
    const greeting = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
    const { session = '' } = await open.post(greeting, {}, '/desk/mcp');
    const headers = { ...given({ 'mcp-name': 'say' }), 'mcp-session-id': session };
    assert.equal(
      (await open.post(echo('ls', 1, 'say'), headers, '/desk/mcp')).json.result.content[0].text,
      'ls',
    );
    assert.deepEqual(open.repeated('tools/call'), given({}));
  });
});

describe('guardrails that a request asks for', () => {
  const headers = { 'x-service-default-input-guardrails': JSON.stringify([without('rm')]) };

  test('judge its calls', async (t) => {
    const { post, sent } = await start(t, {});
    assert.equal((await post(echo('rm'), headers)).json.error.data.code, 'hooks_failed');
    assert.equal((await post(echo('ls'), headers)).json.result.content[0].text, 'ls');
    assert.deepEqual(sent(), [{ text: 'ls' }]);
  });

  test('let no call pass where the pipeline runs none', async (t) => {
    const { post, sent } = await start(t, { isJudging: false });
    const { status, json } = await post(echo('ls'), headers);
    assert.deepEqual([status, json.error.data.code], [400, 'not_supported']);
    assert.match(json.error.message, /Add the plugin "guardrails" to it, before "mcp"/);
    assert.deepEqual(sent(), []);
  });
});
