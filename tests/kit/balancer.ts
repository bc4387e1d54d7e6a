/**
 * Balancers in front of gateways: HAProxy where it is installed, and a small one of our own. Neither repeats a request
 * that it has sent. Answers name the gateway that they come from: `x-gateway: 0`.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { eventually } from './process-kit.ts';

const required = process.env['WEIR_REQUIRE_SERVERS'] === '1';
const isInstalled = spawnSync('haproxy', ['-v']).status === 0;

/** Why suites that need HAProxy are skipped; false when it is there, or when WEIR_REQUIRE_SERVERS=1 forbids skipping. */
export const haproxyMissing: string | false =
  required || isInstalled ? false : 'haproxy is not installed (Debian package haproxy)';

/** How often each gateway's /readyz is asked, and how many bad answers in a row take it out. */
const checkEveryMs = 200;
const badAnswers = 2;

/** One balancer. */
export interface Balancer {
  readonly url: string;
  /** How many gateways get requests now. */
  up(): Promise<number>;
  stop(): Promise<void>;
}

/** How a balancer treats a gateway that takes no connection. */
interface BalancerOptions {
  /** True: the request goes to another one. Default: it fails. */
  readonly redispatch?: boolean;
}

/** Starts HAProxy, with one back-end server for each port. */
export async function startHaproxy(
  ports: readonly number[],
  { redispatch = false }: BalancerOptions = {},
): Promise<Balancer> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-haproxy-'));
  const [port, statusPort] = [await freePort(), await freePort()];
  const file = path.join(folder, 'haproxy.cfg');
  writeFileSync(
    file,
    `global
  maxconn 2000
defaults
  mode http
  ${redispatch ? 'retries 3\n  option redispatch 1' : 'retries 0'}
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  timeout check 10s
frontend gateways
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance roundrobin
  http-reuse always
  option httpchk GET /readyz
  http-response set-header x-gateway %s
${ports.map((one, index) => `  server ${index} 127.0.0.1:${one} check inter ${checkEveryMs}ms fall ${badAnswers} rise 1`).join('\n')}
frontend status
  bind 127.0.0.1:${statusPort}
  http-request return status 200 content-type text/plain lf-string "%[nbsrv(gateways)]"
`,
  );
  const child = spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const up = async (): Promise<number> =>
    Number(await (await fetch(`http://127.0.0.1:${statusPort}`)).text());
  const stop = async (): Promise<void> => {
    await ended(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await eventually(
      () => up().catch(() => undefined),
      () => `haproxy; it said:\n${said}`,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: `http://127.0.0.1:${port}`, up, stop };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** The same in this process, for machines without HAProxy: kept connections, checks, and 502 for whatever fails. */
export async function startStandIn(
  ports: readonly number[],
  { redispatch = false }: BalancerOptions = {},
): Promise<Balancer> {
  const agent = new http.Agent({ keepAlive: true });
  const servers = ports.map((port, index) => ({ port, index, isUp: true, isAsked: false, bad: 0 }));
  let turn = 0;
  const proxy = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const passed = { ...headers };
    delete passed.connection;
    const body: Buffer[] = [];
    const forward = (triesLeft: number): void => {
      const up = servers.filter(({ isUp }) => isUp);
      const server = up[turn++ % Math.max(1, up.length)];
      if (server === undefined) {
        response.writeHead(503).end('no gateway is up');
        return;
      }
      const forwarded = http.request(
        { host: '127.0.0.1', port: server.port, method, path: url, headers: passed, agent },
        (answer) => {
          const back = { ...answer.headers, 'x-gateway': String(server.index) };
          delete back.connection;
          response.writeHead(answer.statusCode ?? 502, back);
          answer.pipe(response);
          answer.on('error', () => response.destroy());
        },
      );
      forwarded.on('error', (error) => {
        const isRefused = 'code' in error && error.code === 'ECONNREFUSED';
        if (response.headersSent) response.destroy();
        else if (isRefused && triesLeft > 0) forward(triesLeft - 1);
        else response.writeHead(502).end(String(error));
      });
      forwarded.end(Buffer.concat(body));
    };
    request.on('data', (chunk: Buffer) => body.push(chunk));
    request.on('end', () => forward(redispatch ? servers.length : 0));
  });
  const check = async (server: (typeof servers)[number]): Promise<void> => {
    if (server.isAsked) return;
    server.isAsked = true;
    const answer = await fetch(`http://127.0.0.1:${server.port}/readyz`, {
      signal: AbortSignal.timeout(10_000),
      headers: { connection: 'close' },
    }).catch(() => undefined);
    await answer?.arrayBuffer().catch(() => undefined);
    server.isAsked = false;
    server.bad = answer?.status === 200 ? 0 : server.bad + 1;
    if (server.bad === 0) server.isUp = true;
    else if (server.bad >= badAnswers) server.isUp = false;
  };
  const checks = setInterval(() => void Promise.all(servers.map(check)), checkEveryMs);
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    up: () => Promise.resolve(servers.filter(({ isUp }) => isUp).length),
    async stop() {
      clearInterval(checks);
      agent.destroy();
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
