// The official conformance suite of MCP, against a reference server and against the gateway in front of it.
import { SSEClientTransport } from '@modelcontextprotocol/client';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { isInitializeRequest, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/server';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { startConformanceServer, type ConformanceServer } from './conformance-server.ts';

/** Versions of the protocol, and how many scenarios of the suite each has at least. */
const versions = { '2025-06-18': 27, '2025-11-25': 33, '2026-07-28': 40 };
/** Longest run of all scenarios of one version. */
const runMs = 240_000;
/** Those that look at Streamable HTTP itself, and say nothing of the older transport. */
const ofHttpAlone =
  /^(server-session-lifecycle|server-sse-polling|server-sse-multiple-streams|dns-rebinding-protection)$/;

const program = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'));
/** The suite imports a function that Node has from version 22 on; its checks of servers never call it. */
const missing = dataUrl(`
  export * from 'node:fs';
  export { default } from 'node:fs';
  export const globSync = () => [];
`);
const loader = dataUrl(`
  import { register } from 'node:module';
  register(${JSON.stringify(
    dataUrl(`export const resolve = (name, context, next) =>
      name === 'fs' && context.parentURL.includes('/conformance/')
        ? { url: ${JSON.stringify(missing)}, shortCircuit: true }
        : next(name, context);`),
  )});
`);

function dataUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

/** Checks by scenario, in their order: `id: SUCCESS`, or `id: message: FAILURE` (`WARNING`, `SKIPPED`). */
type Outcomes = Readonly<Record<string, readonly string[]>>;

/**
 * Runs every scenario of that version against the server at this address. The suite waits no longer than a second for
 * some answers, which a busy machine misses: what did not pass runs once more, alone.
 */
async function outcomes(url: string, version: string, unwanted = /^$/): Promise<Outcomes> {
  const all = await run(url, version, ['--suite', 'all']);
  const wanted = Object.entries(all).filter(([scenario]) => !unwanted.test(scenario));
  for (const entry of wanted) {
    const [scenario, checks] = entry;
    if (checks.every(isPassed)) continue;
    entry[1] = (await run(url, version, ['--scenario', scenario]))[scenario] ?? checks;
  }
  return Object.fromEntries(wanted);
}

const isPassed = (check: string): boolean => check.endsWith(': SUCCESS');

async function run(url: string, version: string, which: readonly string[]): Promise<Outcomes> {
  const folder = await temporaryFolder();
  const args = ['--import', loader, program, 'server', '--url', url, ...which];
  args.push('--spec-version', version, '--output-dir', folder);
  // It ends with 1 when a check fails, which is looked at here, check by check.
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, args, { timeout: runMs, maxBuffer: 64 * 2 ** 20 }, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    );
  });
  const all: Record<string, string[]> = {};
  for (const name of await readdir(folder)) {
    const scenario = name.replace(/^server-(.*?)-\d{4}-\d\d-\d\dT.*$/, '$1');
    const checks = JSON.parse(await readFile(path.join(folder, name, 'checks.json'), 'utf8')) as {
      id: string;
      status: string;
      errorMessage?: string;
    }[];
    all[scenario] = checks
      .filter(({ status }) => status !== 'INFO')
      .map(({ id, status, errorMessage }) =>
        [id, ...(status === 'SUCCESS' ? [] : [errorMessage]), status].join(': '),
      );
  }
  assert.notEqual(Object.keys(all).length, 0, output);
  return all;
}

/** Clients of the suite send no headers of ours: this passes everything on, with a service key. */
async function withKey(target: string): Promise<{ readonly url: string; close(): void }> {
  const { port, pathname } = new URL(target);
  const agent = new http.Agent({ keepAlive: true });
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, 'x-service-api-key': ownerKey };
    const forward = http.request(
      { host: '127.0.0.1', port, method: request.method, path: request.url, headers, agent },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        response.flushHeaders();
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      },
    );
    forward.on('error', () => response.destroy());
    response.on('close', () => forward.destroy());
    request.pipe(forward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`,
    close() {
      agent.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The suite speaks Streamable HTTP alone: each session here is one connection of the older transport there. */
async function overSse(target: string): Promise<{ readonly url: string; close(): Promise<void> }> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const open = async (): Promise<NodeStreamableHTTPServerTransport> => {
    const far = new SSEClientTransport(new URL(target), {
      requestInit: { headers: { 'x-service-api-key': ownerKey } },
    });
    const near = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, near),
    });
    /** Requests of the client without an answer: what the server says meanwhile belongs to the last of them. */
    const waiting: RequestId[] = [];
    near.onmessage = (message: JSONRPCMessage) => {
      if ('method' in message && 'id' in message) waiting.push(message.id);
      // A session that ends sends no more.
      far.send(message).catch(() => undefined);
    };
    far.onmessage = (message) => {
      const isAnswer = !('method' in message);
      const relatedRequestId = isAnswer ? undefined : waiting.at(-1);
      if (isAnswer && message.id !== undefined) waiting.splice(waiting.indexOf(message.id), 1);
      void near.send(message, relatedRequestId === undefined ? {} : { relatedRequestId });
    };
    near.onclose = () => void far.close();
    await far.start();
    await near.start();
    return near;
  };
  const server = http.createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const text = Buffer.concat(parts).toString();
      const body: unknown = text === '' ? undefined : JSON.parse(text);
      const session = sessions.get(String(request.headers['mcp-session-id']));
      if (session) await session.handleRequest(request, response, body);
      else if (isInitializeRequest(body)) await (await open()).handleRequest(request, response, body);
      else response.writeHead(404).end();
    })().catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      for (const session of sessions.values()) await session.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

describe('the official conformance suite', { timeout: 10 * runMs }, () => {
  let reference: ConformanceServer;
  let gateway: WeirProcess;
  before(async () => {
    reference = await startConformanceServer();
    const { url, sseUrl } = reference;
    const servers = { reference: { url }, older: { url: sseUrl, transport: 'sse' } };
    gateway = await startWeir({
      yaml: {
        version: 1,
        storage: { analytics: { url: 'none:' } },
        pipelines: [
          {
            name: 'gateway',
            match: { path: '/**' },
            plugins: ['auth', { mcp: { servers } }, { provider: { default: 'mock' } }, 'logger'],
          },
        ],
      },
    });
  });
  after(async () => {
    await stopEverything();
    await reference.close();
  });

  /** What the server of that name, or `reference` itself, answers; each over the named transport. */
  async function over(transport: 'http' | 'sse', url: string, version: string): Promise<Outcomes> {
    const front = transport === 'http' ? await withKey(url) : await overSse(url);
    try {
      return await outcomes(front.url, version, transport === 'http' ? undefined : ofHttpAlone);
    } finally {
      await Promise.resolve(front.close());
    }
  }

  function assertPassed(all: Outcomes, least: number): void {
    assert.ok(Object.keys(all).length >= least, `${Object.keys(all).length} scenarios ran`);
    const bad = Object.values(all)
      .flat()
      .filter((check) => !isPassed(check));
    assert.deepEqual(bad, [], 'without the gateway');
  }

  for (const [version, least] of Object.entries(versions)) {
    test(`${version} over Streamable HTTP: each check as without the gateway`, async () => {
      const [direct, through] = await Promise.all([
        outcomes(reference.url, version),
        over('http', `${gateway.url}/reference/mcp`, version),
      ]);
      assertPassed(direct, least);
      assert.deepEqual(through, direct);
    });
  }

  for (const version of ['2025-06-18', '2025-11-25']) {
    test(`${version} over the older transport: each check as without the gateway`, async () => {
      const [direct, through] = await Promise.all([
        over('sse', reference.sseUrl, version),
        over('sse', `${gateway.url}/reference/sse`, version),
      ]);
      assertPassed(direct, 26);
      assert.deepEqual(through, direct);
    });
  }

  test('2025-11-25 over Streamable HTTP in front of a server of the older transport', async () => {
    const [direct, through] = await Promise.all([
      over('sse', reference.sseUrl, '2025-11-25'),
      over('http', `${gateway.url}/older/mcp`, '2025-11-25'),
    ]);
    const comparable = Object.entries(through).filter(([scenario]) => !ofHttpAlone.test(scenario));
    assert.deepEqual(Object.fromEntries(comparable), direct);
  });
});
