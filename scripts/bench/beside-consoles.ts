import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import type { Page, Request } from 'playwright-core';
import { load } from '../../main/bench-command/load.ts';
import { closeBrowser } from '../../tests/browser/console-kit.ts';
import { median } from './cpu.ts';
import { nextMessage, startWindowAsker } from './subject.ts';
import { requestBytes } from './workload.ts';

const requestsPerSecond = 500;
const connections = 32;
/** Half of them show the home page, half follow the log. */
export const windows = 10;
/** The calls of an opening page have been answered by then. */
const openingMs = 8000;
const recordedMs = 12_000;

/** What the windows ask of the gateway once they are open. */
export interface WindowCalls {
  readonly url: string;
  /** Streams that stay open. */
  readonly streams: readonly WindowCall[];
  /** Other calls, at their time in the period, milliseconds. They are repeated in each. */
  readonly calls: readonly (WindowCall & { readonly at: number })[];
  readonly periodMs: number;
}

interface WindowCall {
  readonly path: string;
  readonly method: string;
  /** Of the browser, with the cookie of its session. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** p99 of requests with ten consoles open / without, the median of the rounds, and what the consoles ask. */
export interface BesideConsoles {
  readonly beside_ratio: number;
  readonly beside_streams: number;
  readonly beside_calls: number;
}

/**
 * p99 of requests in turns alone and while ten consoles are open. In operation browsers run on machines of their own; here
 * ten idle windows alone delay requests, since everything shares a few cores. So the windows are opened in a browser, which
 * shows what they ask beside the same requests, and a process with the lowest priority asks it in their place.
 */
export async function besideConsoles(
  port: number,
  open: (place: string) => Promise<Page>,
  quick: boolean,
): Promise<BesideConsoles> {
  const rounds = quick ? 3 : 11;
  const requests = requestsPerSecond * (quick ? 4 : 10);
  const bytes = requestBytes(port, false);
  await load(port, bytes, 20_000, connections);
  const recorded = await recordWindows(port, open);
  await closeBrowser();
  const asker = startWindowAsker();
  try {
    const ratios: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const alone = await load(port, bytes, requests, connections, requestsPerSecond);
      asker.send(recorded);
      await told(asker);
      const beside = await load(port, bytes, requests, connections, requestsPerSecond);
      asker.send('rest');
      await told(asker);
      ratios.push(beside.p99Ms / alone.p99Ms);
    }
    const { streams, calls } = recorded;
    return { beside_ratio: median(ratios), beside_streams: streams.length, beside_calls: calls.length };
  } finally {
    asker.kill();
  }
}

async function told(asker: ChildProcess): Promise<void> {
  const answer = await nextMessage(asker);
  if (answer !== 'done') throw new Error(`A call in place of the windows failed: ${String(answer)}`);
}

/** Opens the windows beside the requests of the bench, and notes what they ask when they are open. */
async function recordWindows(port: number, open: (place: string) => Promise<Page>): Promise<WindowCalls> {
  const running = new Map<Request, number>();
  const ended: [Request, number][] = [];
  const end = (request: Request): void => {
    const at = running.get(request);
    running.delete(request);
    if (at !== undefined) ended.push([request, at]);
  };
  for (let number = 0; number < windows; number += 1) {
    const place = number % 2 === 0 ? '/console' : '/console/logs?live=true';
    const page = await open('/console');
    page.on('request', (request) => running.set(request, Date.now()));
    page.on('requestfinished', end);
    page.on('requestfailed', end);
    await page.goto(place);
  }
  const seconds = (openingMs + recordedMs) / 1000;
  const beside = load(port, requestBytes(port, false), { seconds }, connections, requestsPerSecond);
  await delay(openingMs);
  const begin = Date.now();
  await delay(recordedMs);
  await beside;
  const isOfConsole = (request: Request): boolean => request.url().startsWith(`http://127.0.0.1:${port}/`);
  const streams = [...running].filter(([request, at]) => at < begin && isOfConsole(request));
  const others = [...ended, ...running].filter(
    ([request, at]) => at >= begin && at < begin + recordedMs && isOfConsole(request),
  );
  const expected = windows / 2;
  if (streams.length !== expected)
    throw new Error(`${streams.length} windows follow the log instead of ${expected}.`);
  return {
    url: `http://127.0.0.1:${port}`,
    streams: await Promise.all(streams.map(([request]) => callOf(request))),
    calls: await Promise.all(
      others.map(async ([request, at]) => ({ ...(await callOf(request)), at: at - begin })),
    ),
    periodMs: recordedMs,
  };
}

async function callOf(request: Request): Promise<WindowCall> {
  const { pathname, search } = new URL(request.url());
  const headers = await request.allHeaders();
  return {
    path: pathname + search,
    method: request.method(),
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(':'))),
    body: request.postData(),
  };
}
