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
  return { gateway, post, sent };
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
