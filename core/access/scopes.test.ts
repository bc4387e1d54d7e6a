// What a key may send to providers, over every kind of key, scope and endpoint, seen at the provider.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import auth from '../../plugins/auth/index.ts';
import cache from '../../plugins/cache/index.ts';
import prompts from '../../plugins/prompts/index.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';
import { callers, secret, startRealtime } from '../../tests/kit/realtime-kit.ts';
import { FileRecords } from '../administration/directory/file-records.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { knownScopes, requireProviderScope } from './scopes.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
/** A request to a provider, and the narrow scope that lets it through beside `completions.write`. */
const endpoints: readonly (readonly [method: string, path: string, narrow?: string])[] = [
  ...[
    ...[
      '/chat/completions',
      '/completions',
      '/embeddings',
      '/moderations',
      '/responses',
      '/messages',
      '/rerank',
    ],
    ...[
      '/messages/count_tokens',
      '/images/generations',
      '/images/edits',
      '/audio/speech',
      '/audio/transcriptions',
    ],
    ...[
      '/files',
      '/batches',
      '/fine_tuning/jobs',
      '/v1beta/models/m:generateContent',
      '/models/m:generateContent',
    ],
    ...['/v1beta/models/m:streamGenerateContent', '/videos', '/threads/runs', '/prompts/p/completions'],
    ...[
      '/models',
      '/models/chat/completions',
      '/Chat/Completions',
      '/chat//completions',
      '/v1/v1/embeddings',
    ],
    ...['/anything/else', '/proxy/chat/completions', '/proxy/models', '/proxy/proxy/models'],
  ].map((path) => ['POST', path] as const),
  // Tools act: these need a scope of their own, and the general one does not include it.
  ['POST', '/mcp', 'mcp.invoke'],
  ['POST', '/tickets/mcp', 'mcp.invoke'],
  ['GET', '/tickets//SSE', 'mcp.invoke'],
  ['DELETE', '/v1/tickets/mcp', 'mcp.invoke'],
  ['GET', '/mcp/oauth/authorize', 'mcp.invoke'],
  ['GET', '/models', 'models.list'],
  ['GET', '/models/m', 'models.list'],
  ['GET', '/proxy/models', 'models.list'],
  ['HEAD', '/models', 'models.list'],
  ['DELETE', '/models/ft:m', 'models.delete'],
  ...['/files', '/files/f/content', '/batches/b/output', '/responses/r', '/chat/completions', '/'].map(
    (path) => ['GET', path] as const,
  ),
  ['PUT', '/models/m'],
  ['DELETE', '/files/f'],
  ['PATCH', '/x'],
  ['OPTIONS', '/x'],
  ['PROPFIND', '/x'],
];
const kinds = ['owner', 'organisation-service', 'workspace-service', 'workspace-user'] as const;

describe('requests to providers', () => {
  test('no kind of key and no scope lets through what it does not stand for', async (t) => {
    const provider = await startUpstream(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}');
    });
    const keys: Record<string, KeyRecord> = {};
    const gateway = await startTestGateway(t, {
      plugins: [auth, prompts, cache, providerPlugin({ default: 'up' })],
      providers: { up: { base_url: provider.url, credentials: 'none' } },
      keys,
      directory: { keyByHash: () => keys['now'] },
    });
    const all = [...knownScopes, '*', 'things.view'];
    const asked = fc.record({
      kind: fc.constantFrom(...kinds),
      isToken: fc.boolean(),
      scopes: fc.oneof(
        fc
          .constantFrom<string>('*', 'completions.write', 'models.list', 'models.delete')
          .map((scope) => [scope]),
        fc.subarray(all, { maxLength: 5 }),
        fc.subarray(all.filter((scope) => !/^(\*|completions\.write)$/.test(scope))),
      ),
      endpoint: fc.constantFrom(...endpoints),
    });
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(asked, async ({ kind, isToken, scopes, endpoint: [method, path, narrow] }) => {
        keys['now'] = testKey({ kind, scopes, ...(isToken && { isToken }) });
        const before = provider.requests.length;
        const answer = await send(gateway.url, {
          method,
          path: path.startsWith('/v1') ? path : `/v1${path}`,
          headers: { 'x-service-api-key': 'wk_now' },
          ...(method === 'POST' && { body: chat }),
        });
        const isTool = narrow === 'mcp.invoke';
        const holdsNarrow = narrow !== undefined && !isTool;
        const wildcard = scopes.includes('*') && (kind !== 'organisation-service' || holdsNarrow);
        const may =
          wildcard ||
          (scopes.includes('completions.write') && !isTool) ||
          (narrow !== undefined && scopes.includes(narrow));
        const told = `${method} ${path} as ${kind} with ${scopes.join()}: ${answer.status} ${answer.text}`;
        assert.equal(answer.status === 403, !may, told);
        seen.add(answer.status);
        if (may) return;
        assert.equal(provider.requests.length, before, `it reached the provider: ${told}`);
        if (method !== 'HEAD') assert.match(answer.text, isTool ? /mcp\.invoke/ : /completions\.write/, told);
      }),
      { numRuns: 600 },
    );
    assert.ok(seen.has(200) && seen.has(403));
  });

  test('the refusal names the scope and the remedy, in the dialect of the client', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [auth, providerPlugin({ default: 'mock' })],
      keys: {
        viewer: testKey({ name: 'viewer', scopes: ['logs.view'] }),
        admin: testKey({ name: 'admin', kind: 'organisation-service', scopes: ['logs.view'] }),
      },
    });
    const ask = (path: string, key: string) =>
      send(gateway.url, { method: 'POST', path, headers: { 'x-service-api-key': key }, body: chat });
    const plain = await ask('/v1/chat/completions', 'viewer');
    assert.deepEqual([plain.status, plain.json().error.code], [403, 'scope_missing']);
    assert.match(
      plain.json().error.message,
      /"viewer" lacks the scope "completions\.write".*PUT \/api-keys\/\{id\}/,
    );
    const anthropic = await ask('/v1/messages', 'viewer');
    assert.deepEqual([anthropic.json().type, anthropic.json().error.type], ['error', 'permission_error']);
    const google = await ask('/v1beta/models/m:generateContent', 'viewer');
    assert.deepEqual([google.json().error.code, google.json().error.status], [403, 'PERMISSION_DENIED']);
    assert.match((await ask('/v1/embeddings', 'admin')).text, /a key of a workspace/);
  });

  test('the remedy for a key of the configuration names its place there', async (t) => {
    const sha = (secret: string) => createHash('sha256').update(secret).digest('hex');
    const gateway = await startTestGateway(t, {
      plugins: [
        { plugin: auth, options: { keys: [{ name: 'a', key: 'wk_in-auth', scopes: ['logs.view'] }] } },
        providerPlugin({ default: 'mock' }),
      ],
    });
    const answer = await send(gateway.url, {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': 'wk_in-auth' },
      body: chat,
    });
    assert.match(answer.json().error.message, /configuration defines it \(auth: keys\[0\]\)/);
    const config = {
      organisation: {
        keys: [
          { name: 'b', type: 'workspace-service' as const, key_sha256: sha('wk_b'), scopes: ['logs.view'] },
        ],
      },
    };
    const place = { defaultOrganisationId: 'org-1', defaultWorkspaceId: 'ws-1', secrets: testSecrets };
    const key = new FileRecords({ config }, place, 0).keyByHash(
      createHash('sha256').update('wk_b').digest('base64'),
    );
    assert.ok(key);
    assert.throws(
      () => requireProviderScope(key, { method: 'POST', path: '/x', endpoint: { id: 'proxy' } }),
      {
        message: /configuration defines it \(gateway\.config\.yaml \(organisation\.keys\[0\]\)\)/,
      },
    );
  });

  test('an answer that is kept is not for a key without the scope', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [auth, cache, providerPlugin({ default: 'mock' })],
      keys: { writer: testKey(), reader: testKey({ id: 'key-2', scopes: ['logs.view', 'models.list'] }) },
    });
    const ask = (key: string) =>
      send(gateway.url, {
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { 'x-service-api-key': key },
        body: chat,
      });
    await ask('writer');
    const hit = await ask('writer');
    assert.deepEqual([hit.status, hit.headers['x-service-cache-status']], [200, 'HIT']);
    assert.equal((await ask('reader')).status, 403);
  });

  test('a connection of WebSocket is not opened, whatever its path', async (t) => {
    const keys = { [secret]: testKey({ scopes: ['logs.view', 'models.list', 'completions.read'] }) };
    const { open, provider, gateway } = await startRealtime(t, { keys });
    const paths = ['/v1/realtime?model=m', '/v1/models', '/v1/responses', '/proxy/models'];
    for (const path of paths) await assert.rejects(open(path, callers), /not switched/, path);
    await gateway.untilSettled(paths.length);
    const codes = gateway.settled.map(({ outcome }) => outcome.error?.code);
    assert.deepEqual([codes, provider.sockets.length], [paths.map(() => 'scope_missing'), 0]);
  });
});
