import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import auth from '../../plugins/auth/index.ts';
import mcp from '../../plugins/mcp/index.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { startTestGateway } from '../kit/gateway-kit.ts';
import { send } from '../kit/http-kit.ts';
import { startMcpServer } from '../kit/mcp-server.ts';
import {
  type PlannedIntegration,
  type PlannedServer,
  type PlannedVirtualServer,
  plantedWorld,
} from '../kit/mcp-world.ts';
import { testKey } from '../kit/plugin-kit.ts';

const runs = 40;
const tools = ['read', 'write', 'drop'] as const;
const organisations = ['org-a', 'org-b'];
/** Workspaces of both organisations: equal users, and slugs that both use. */
const places = organisations.flatMap((organisationId) =>
  ['1', '2'].map((number) => ({ organisationId, workspaceId: `${organisationId}-ws-${number}` })),
);
const users = ['', 'user-1', 'user-2'];

interface World {
  readonly integrations: readonly (PlannedIntegration & { readonly off: readonly string[] })[];
  readonly servers: readonly (PlannedServer & { readonly off: readonly string[] })[];
  readonly virtual: readonly PlannedVirtualServer[];
}

const someTools = fc.subarray([...tools], { maxLength: 2 });
const place = fc.constantFrom(...places);
const integration = fc.record({
  place,
  isShared: fc.boolean(),
  globalAccess: fc.record({ enabled: fc.boolean() }),
  access: fc.dictionary(fc.constantFrom(...places.map(({ workspaceId }) => workspaceId)), fc.boolean()),
  off: someTools,
});
const server = fc.record({
  place,
  integration: fc.nat(),
  defaultUserAccess: fc.constantFrom('allow' as const, 'deny' as const),
  userAccess: fc.dictionary(fc.constantFrom('user-1', 'user-2', 'constructor'), fc.boolean()),
  off: someTools,
});

/** Tools of any server, of other workspaces and organisations, too. */
const virtual = fc.record({
  place,
  tools: fc.array(fc.record({ server: fc.nat(5), tool: fc.constantFrom(...tools) }), {
    minLength: 1,
    maxLength: 4,
  }),
});
/** Lists are kept by the ids of servers, so each world has its own. */
let worlds = 0;

/** A world whose integrations are at `url`, each on a path of its own. */
function worldAt(url: string) {
  return fc
    .record({
      integrations: fc.array(integration, { minLength: 1, maxLength: 4 }),
      servers: fc.array(server, { minLength: 1, maxLength: 6 }),
      virtual: fc.array(virtual, { maxLength: 3 }),
    })
    .map(({ integrations: sketched, servers, virtual }): World => {
      worlds += 1;
      const integrations = sketched.map(({ place: at, isShared, globalAccess, access, off }, index) => ({
        id: `integration-${worlds}-${index}`,
        organisationId: at.organisationId,
        workspaceId: isShared ? undefined : at.workspaceId,
        url: `${url}?integration=${index}`,
        globalAccess,
        workspaces: Object.fromEntries(
          Object.entries(access).map(([id, enabled]) => [id, { enabled, createdAt: 1, updatedAt: 1 }]),
        ),
        capabilities: off.map((name) => ({ name, enabled: false })),
        off,
      }));
      const planned = servers.flatMap((one, index) => {
        const inReach = integrations.filter(
          ({ organisationId }) => organisationId === one.place.organisationId,
        );
        const parent = inReach[one.integration % Math.max(1, inReach.length)];
        if (parent === undefined) return [];
        const { defaultUserAccess, userAccess, off } = one;
        return {
          ...one.place,
          id: `server-${worlds}-${index}`,
          slug: `secret-name-${index}`,
          integrationId: parent.id,
          ...{ defaultUserAccess, userAccess, off },
          capabilities: off.map((name) => ({ type: 'tool' as const, name, enabled: false })),
        };
      });
      const plannedVirtual = virtual.map(({ place: at, tools: chosen }, index) => ({
        ...at,
        id: `virtual-${worlds}-${index}`,
        slug: `secret-name-${100 + index}`,
        tools: chosen.map((one, number) => ({
          server: `secret-name-${one.server}`,
          tool: one.tool,
          name: `tool-${number}`,
        })),
      }));
      return { integrations, servers: planned, virtual: plannedVirtual };
    });
}

/** The same decision, said once more and naively. */
function allowedTools(world: World, key: KeyRecord, slug: string): readonly string[] | undefined {
  const found = world.servers.find((one) => one.slug === slug);
  if (found?.organisationId !== key.organisationId || found.workspaceId !== key.workspaceId) return undefined;
  const parent = world.integrations.find(({ id }) => id === found.integrationId);
  assert.ok(parent);
  const entry = Object.entries(parent.workspaces ?? {}).find(([id]) => id === key.workspaceId)?.[1];
  const isShared = parent.workspaceId === undefined;
  const mayWorkspace = isShared
    ? (entry ?? parent.globalAccess)?.enabled === true
    : parent.workspaceId === key.workspaceId;
  const said = Object.entries(found.userAccess ?? {}).find(([user]) => user === key.userId)?.[1];
  const mayUser = said ?? found.defaultUserAccess === 'allow';
  if (!mayWorkspace || !mayUser) return undefined;
  return tools.filter((tool) => !parent.off.includes(tool) && !found.off.includes(tool));
}

/** Names of the tools that a virtual server shows to the key; undefined where there is none for it. */
function shownTools(
  world: World,
  key: KeyRecord,
  { organisationId, workspaceId, tools: chosen = [] }: PlannedVirtualServer,
): readonly string[] | undefined {
  if (organisationId !== key.organisationId || workspaceId !== key.workspaceId) return undefined;
  return chosen.flatMap(({ server: of, tool, name = tool }) =>
    allowedTools(world, key, of)?.includes(tool) === true ? [name] : [],
  );
}

test('a key sees, calls and goes on with nothing but what its workspace and user may, and hears no other name', async (t) => {
  const offered = tools.map((name) => ({ name, inputSchema: { type: 'object' } }));
  const upstream = await startMcpServer({
    session: 'session-of-the-server',
    results: {
      'tools/list': { tools: offered },
      'tools/call': { content: [{ type: 'text', text: 'done' }] },
    },
  });
  t.after(() => upstream.close());
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const keys = Object.fromEntries(
    places.flatMap((at, index) =>
      users.map((userId) => {
        const id = `key-${index}-${userId}`;
        return [id, testKey({ id, ...at, userId, scopes: ['mcp.invoke'] })];
      }),
    ),
  );
  let planted: Pick<Directory, 'record' | 'records'> = plantedWorld([], []);
  const gateway = await startTestGateway(t, {
    plugins: [auth, mcp],
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: ['127.0.0.1'] }),
    keys,
    directory: {
      record: (kind, at, idOrSlug) => planted.record(kind, at, idOrSlug),
      records: (kind, at) => planted.records(kind, at),
    },
  });
  const ask = async (key: string, slug: string, message: object, session?: string) => {
    const answer = await send(gateway.url, {
      method: 'POST',
      path: `/${slug}/mcp`,
      headers: {
        'content-type': 'application/json',
        'x-service-api-key': key,
        ...(session !== undefined && { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
    });
    return { ...answer, json: answer.text === '' ? undefined : JSON.parse(answer.text) };
  };
  const reached = () => upstream.requests.length;
  const initialize = {
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
  };

  async function checkKey(world: World, secret: string, sessions: Map<string, string>): Promise<void> {
    const key = keys[secret] as KeyRecord;
    const mine = world.servers.filter(({ slug }) => allowedTools(world, key, slug) !== undefined);
    const virtual = world.virtual.filter((one) => shownTools(world, key, one) !== undefined);
    const names = new Set([...mine, ...virtual].map(({ slug }) => slug));
    for (const one of world.virtual) await checkVirtual(world, secret, sessions, one);
    for (const { slug } of world.servers) {
      const may = allowedTools(world, key, slug);
      if (may === undefined) {
        const before = reached();
        for (const message of [initialize, { method: 'tools/list' }]) {
          const answer = await ask(secret, slug, message);
          assert.equal(answer.status, 404, answer.text);
          assert.equal(answer.json.error.data.code, 'mcp_server_unknown');
          const said = answer.text.match(/secret-name-\d+/g) ?? [];
          for (const name of said) assert.ok(name === slug || names.has(name), answer.text);
        }
        assert.equal(reached(), before, 'the server hears nothing');
        continue;
      }
      const begun = await ask(secret, slug, initialize);
      const session = String(begun.headers['mcp-session-id']);
      assert.notEqual(session, 'session-of-the-server');
      sessions.set(`${secret} ${slug}`, session);
      const listed = await ask(secret, slug, { method: 'tools/list' }, session);
      assert.deepEqual(
        listed.json.result.tools.map(({ name }: { name: string }) => name),
        may,
      );
      for (const name of tools) {
        const before = reached();
        const { json } = await ask(secret, slug, { method: 'tools/call', params: { name } }, session);
        if (may.includes(name)) assert.equal(json.result.content[0].text, 'done');
        else {
          assert.equal(json.error.data.code, 'mcp_capability_refused');
          assert.equal(reached(), before, 'the server hears nothing');
        }
      }
    }
  }

  async function checkVirtual(
    world: World,
    secret: string,
    sessions: Map<string, string>,
    one: PlannedVirtualServer,
  ): Promise<void> {
    const may = shownTools(world, keys[secret] as KeyRecord, one);
    const before = reached();
    const begun = await ask(secret, one.slug, initialize);
    if (may === undefined) {
      assert.equal(begun.status, 404, begun.text);
      assert.equal(reached(), before, 'the servers hear nothing');
      return;
    }
    const session = String(begun.headers['mcp-session-id']);
    sessions.set(`${secret} ${one.slug}`, session);
    const listed = await ask(secret, one.slug, { method: 'tools/list' }, session);
    assert.deepEqual(
      listed.json.result.tools.map(({ name }: { name: string }) => name),
      may,
    );
    for (const { tool, name = tool } of one.tools ?? []) {
      const heard = reached();
      const { json } = await ask(secret, one.slug, { method: 'tools/call', params: { name } }, session);
      if (may.includes(name)) assert.equal(json.result.content[0].text, 'done');
      else {
        assert.equal(json.error.data.code, 'mcp_capability_refused');
        assert.equal(reached(), heard, 'the servers hear nothing');
      }
    }
  }

  /** A session is of one key and one server. */
  async function checkSessions(world: World, sessions: ReadonlyMap<string, string>): Promise<void> {
    const [[of, session] = ['', '']] = sessions;
    for (const secret of Object.keys(keys))
      for (const { slug } of [...world.servers, ...world.virtual]) {
        if (of === `${secret} ${slug}` || of === '') continue;
        const before = reached();
        const answer = await ask(secret, slug, { method: 'tools/list' }, session);
        assert.equal(answer.status, 404, answer.text);
        assert.equal(reached(), before, 'the server hears nothing');
      }
  }

  await fc.assert(
    fc.asyncProperty(worldAt(upstream.url), async (world) => {
      planted = plantedWorld(world.integrations, world.servers, world.virtual);
      const sessions = new Map<string, string>();
      for (const secret of Object.keys(keys)) await checkKey(world, secret, sessions);
      await checkSessions(world, sessions);
    }),
    { numRuns: runs, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
  );
});
