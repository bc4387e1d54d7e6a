import { setTimeout as pause } from 'node:timers/promises';
import { measured, median, quantile } from './cpu.ts';
import { IdleStreams } from './idle-streams.ts';
import { load } from '../../main/bench-command/load.ts';
import { openFilesLimit } from './open-files.ts';
import { readMemory } from './streams.ts';
import { removeFolder, startBare, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { benchKey, listedTools, mcpBytes } from './workload.ts';

/** Calls of MCP tools, sessions and lists. */
interface McpFigures {
  /** CPU per tool call, with every connection busy. */
  readonly bare_us: number;
  readonly weir_us: number;
  readonly ratio: number;
  /** Range of the middle half of the rounds' own ratios. */
  readonly spread: readonly [lower: number, upper: number];
  readonly sessions: number;
  /** Resident memory of an idle session, bytes. */
  readonly session_bytes: number;
  /** The same with the stream that most clients hold open. */
  readonly listening_session_bytes: number;
  readonly listed_tools: number;
  /** Median milliseconds of the list of all tools of all servers, over one connection on loopback. */
  readonly list_ms: number;
}

const connections = 32;
const warmCalls = 60_000;
const wantedSessions = 1000;
/** Sessions before the first measurement fill heap space that earlier load has left free. */
const sessionsBefore = 200;
/** Files that the gateway has open beside its streams, each of which takes two. */
const otherFiles = 300;
const settleMs = 3000;
const lists = 1000;

const params = { name: 'read_gauge_001', arguments: { station: 'Vienna' } };
const toolCall = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
const path = '/bench/mcp';

/** CPU per tool call beside the bare proxy, memory of idle sessions, and the time of a long list of tools. */
export async function measureMcp(quick: boolean): Promise<McpFigures> {
  const upstream = await startUpstream('mcp-upstream');
  try {
    const calls = await measureCalls(upstream.port, quick);
    const idle = await measureSessions(upstream.port);
    const list_ms = await measureList(upstream.port);
    return { ...calls, ...idle, listed_tools: listedTools, list_ms };
  } finally {
    await upstream.stop();
  }
}

/** The chain of the other figures, with `mcp` in the place of `provider`. */
function config(upstreamPort: number): string {
  return `version: 1
log: { level: warn }
pipelines:
  - name: admin
    match: { routes: contributed }
    plugins: [auth, management]
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - rate-limit: { requests_per_minute: 100000000, requests_per_hour: 100000000, requests_per_day: 100000000 }
      - mcp: { servers: { bench: { url: "http://127.0.0.1:${upstreamPort}/mcp" } } }
      - provider: { default: mock }
      - logger: { bodies: true }
`;
}

async function withWeir<Value>(
  upstreamPort: number,
  memoryProbe: boolean,
  use: (weir: WeirSubject) => Promise<Value>,
): Promise<Value> {
  const weir = await startWeir({ upstreamPort, config: config(upstreamPort), memoryProbe });
  try {
    return await use(weir);
  } finally {
    await weir.stop();
    await removeFolder(weir.folder);
  }
}

async function measureCalls(upstreamPort: number, quick: boolean) {
  const rounds = quick ? 3 : 9;
  const calls = quick ? 8000 : 20_000;
  const bare = await startBare(upstreamPort);
  try {
    return await withWeir(upstreamPort, false, async (weir) => {
      const session = await openSession(weir.port, path);
      const subjects = [
        { subject: bare, request: mcpBytes(bare.port, 'POST', '/mcp', toolCall), costs: [] as number[] },
        {
          subject: weir,
          request: mcpBytes(weir.port, 'POST', path, toolCall, session),
          costs: [] as number[],
        },
      ] as const;
      for (const { subject, request } of subjects) await load(subject.port, request, warmCalls, connections);
      for (let round = 0; round < rounds; round++) {
        for (const { subject, request, costs } of subjects) {
          const run = () => load(subject.port, request, calls, connections);
          const { cpuMicroseconds, completed } = await measured(subject, run);
          costs.push(cpuMicroseconds / completed);
        }
      }
      const [{ costs: bareCosts }, { costs: weirCosts }] = subjects;
      const ratios = weirCosts.map((cost, round) => cost / (bareCosts[round] ?? NaN));
      return {
        bare_us: median(bareCosts),
        weir_us: median(weirCosts),
        ratio: median(ratios),
        spread: [quantile(ratios, 0.25), quantile(ratios, 0.75)] as const,
      };
    });
  } finally {
    await bare.stop();
  }
}

async function measureSessions(upstreamPort: number) {
  const possible = Math.floor((openFilesLimit() - otherFiles) / 2) - sessionsBefore;
  const sessions = Math.min(wantedSessions, possible);
  return withWeir(upstreamPort, true, async ({ port, child }) => {
    const first = await openSession(port, path);
    await load(port, mcpBytes(port, 'POST', path, toolCall, first), warmCalls / 4, connections);
    const open = async (count: number): Promise<string[]> => {
      const ids: string[] = [];
      while (ids.length < count) ids.push(await openSession(port, path));
      return ids;
    };
    const before = await open(sessionsBefore);
    const resident = async (): Promise<number> => {
      await pause(settleMs);
      return (await readMemory(child)).resident;
    };
    const atFirst = await resident();
    const ids = await open(sessions);
    const withSessions = await resident();
    const listen = (all: readonly string[]) => {
      const request = (n: number): Buffer => mcpBytes(port, 'GET', path, undefined, all[n]);
      return new IdleStreams(port, request);
    };
    // Buffers and sockets of the first streams fill space that is free already, as above.
    const early = listen(before);
    await early.open(before.length);
    const fewStreams = await resident();
    const streams = listen(ids);
    await streams.open(ids.length);
    const withStreams = await resident();
    if (streams.ended > 0) throw new Error(`${streams.ended} streams of sessions ended.`);
    await Promise.all([early.close(), streams.close()]);
    const session_bytes = (withSessions - atFirst) / sessions;
    const stream_bytes = (withStreams - fewStreams) / sessions;
    return { sessions, session_bytes, listening_session_bytes: session_bytes + stream_bytes };
  });
}

async function measureList(upstreamPort: number): Promise<number> {
  return withWeir(upstreamPort, false, async ({ port }) => {
    const session = await openSession(port, '/mcp');
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
    const request = mcpBytes(port, 'POST', '/mcp', list, session);
    await load(port, request, lists, 1);
    const { failed, p50Ms } = await load(port, request, lists, 1);
    if (failed > 0) throw new Error(`${failed} lists failed.`);
    return p50Ms;
  });
}

/** Shakes hands; resolves with the id of the session, if there is one. */
async function openSession(port: number, at: string): Promise<string> {
  const say = async (message: object, session = ''): Promise<Response> => {
    const answer = await fetch(`http://127.0.0.1:${port}${at}`, {
      method: 'POST',
      headers: {
        'x-service-api-key': benchKey,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session !== '' && { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`The handshake failed with ${answer.status}: ${text}`);
    return answer;
  };
  const clientInfo = { name: 'weir-bench', version: '1' };
  const greeting = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const answer = await say({ id: 0, method: 'initialize', params: greeting });
  const session = answer.headers.get('mcp-session-id') ?? '';
  await say({ method: 'notifications/initialized' }, session);
  return session;
}
