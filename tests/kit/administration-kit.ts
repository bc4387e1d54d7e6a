import assert from 'node:assert/strict';
/** The administration API for tests: a gateway with the management plugin in front of a real store. */
import { randomUUID } from 'node:crypto';
import { after } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import guardrails from '../../plugins/guardrails/index.ts';
import management from '../../plugins/management/index.ts';
import policies from '../../plugins/policies/index.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { createResources } from '../../storage/postgres/resources.ts';
import {
  providerPlugin,
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from './gateway-kit.ts';
import { send, type Received } from './http-kit.ts';
import { testKey } from './plugin-kit.ts';
import { openTestDatabase, type Closing } from './postgres-kit.ts';

/** The administration, in an embedded store of its own; takes a second or two, so once per file is best. */
export async function openTestResources(closing: Closing): Promise<Resources> {
  const database = await openTestDatabase(closing);
  return createResources({ database, clock: testClock, log: recordingLog() });
}

let ofFiles: Promise<Resources> | undefined;
let filesOpen = 0;
const closingOfFiles: (() => Promise<void>)[] = [];

/**
 * The store of a test file, or of all that share this process: opened before their tests, and closed behind the last of
 * them. Each test has an organisation of its own in it.
 */
export async function openResourcesOfFile(): Promise<Resources> {
  filesOpen += 1;
  after(async () => {
    filesOpen -= 1;
    if (filesOpen > 0) return;
    ofFiles = undefined;
    for (const close of closingOfFiles.splice(0)) await close();
  });
  return (ofFiles ??= openTestResources({ after: (close) => void closingOfFiles.push(close) }));
}

/** An organisation that no other test uses, with its default workspace and its keys. */
export interface TestTenant {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly owner: KeyRecord;
  /** Another key of this organisation. */
  key(overrides: Partial<KeyRecord>): KeyRecord;
}

/** A call of the administration API. */
export interface AdminCall {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Administration {
  readonly gateway: TestGateway;
  /** Makes an organisation; its ids and names begin with `name`. */
  tenant(name: string): Promise<TestTenant>;
  /** Calls with this key; undefined for nobody. */
  call(key: KeyRecord | undefined, call: AdminCall): Promise<Received>;
}

/** Calls that must be answered with 200, and calls that must be refused; with `key` where they name no other. */
export function expecting(call: Administration['call'], key: KeyRecord) {
  return {
    /** The answer. */
    async ok(asked: AdminCall, by = key) {
      const answer = await call(by, asked);
      assert.equal(answer.status, 200, `${asked.path}: ${answer.text}`);
      return answer.json();
    },
    async refused(asked: AdminCall, status: number, message: RegExp, by = key): Promise<void> {
      const answer = await call(by, asked);
      assert.equal(answer.status, status, `${asked.path}: ${answer.text}`);
      assert.match(answer.text, message);
    },
  };
}

/**
 * Starts a gateway in front of the store; without `resources`, of one that administers nothing. `options` say what else
 * it has. With providers, it serves requests as well.
 */
export async function startAdministration(
  t: Closing,
  resources?: Resources,
  options: Pick<
    TestGatewayOptions,
    | 'analytics'
    | 'checksOf'
    | 'clock'
    | 'configFile'
    | 'directory'
    | 'exports'
    | 'features'
    | 'mcp'
    | 'mcpServers'
    | 'operations'
    | 'providers'
    | 'secretManagers'
    | 'server'
  > & {
    /** Further options of the plugin. */
    readonly management?: Readonly<Record<string, unknown>>;
  } = {},
): Promise<Administration> {
  const keys: Record<string, KeyRecord> = {};
  const gateway = await startTestGateway(t, {
    keys,
    providers: {},
    configs: { main: { provider: 'mock' } },
    ...options,
    ...(resources !== undefined && { resources }),
    server: { max_body_bytes: 8_000_000, ...options.server },
    pipelines: [
      {
        match: { routes: 'contributed' },
        plugins: [auth, { plugin: management, options: { config_writes: true, ...options.management } }],
      },
      ...(options.providers === undefined
        ? []
        : [{ name: 'serving', plugins: [auth, policies, guardrails, providerPlugin()] }]),
    ],
  });
  return {
    gateway,
    async tenant(name) {
      const organisationId = `${name}-${randomUUID()}`;
      const workspaceId = `${name}-ws-${randomUUID()}`;
      await resources?.write(organisationId, async ({ organisations, workspaces }) => {
        await organisations.ensure({ id: organisationId, name, createdAt: 1 });
        await workspaces.insert({
          id: workspaceId,
          organisationId,
          slug: `ws-${name}-default`,
          name: `${name} default`,
          description: '',
          icon: '',
          status: 'active',
          isDefault: true,
          defaults: {},
          usageLimits: [],
          rateLimits: [],
          createdAt: 1,
          updatedAt: 1,
          version: 1,
        });
      });
      const key = (overrides: Partial<KeyRecord>): KeyRecord =>
        testKey({ id: randomUUID(), organisationId, workspaceId, ...overrides });
      return { organisationId, workspaceId, key, owner: key({ kind: 'owner', name: `${name} owner` }) };
    },
    call(key, { method, path, body, headers = {} }) {
      const secret = key === undefined ? undefined : `wk_${key.id}`;
      if (key !== undefined && secret !== undefined) keys[secret] = key;
      return send(gateway.url, {
        path: `/v1${path}`,
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        ...(body !== undefined && { body }),
        leavesStreams: true,
        headers: { ...(secret !== undefined && { 'x-service-api-key': secret }), ...headers },
      });
    },
  };
}
