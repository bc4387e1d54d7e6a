import type { CDPSession, Page } from 'playwright-core';
import { buildConsole, closeBrowser, openWindow } from '../../tests/browser/console-kit.ts';
import { analyticsConfig, seededStore, type SeededStore } from './analytics/store.ts';
import { type BesideConsoles, besideConsoles, windows } from './beside-consoles.ts';
import { median } from './cpu.ts';
import { removeFolder, startUpstream, startWeir } from './subject.ts';
import { benchKey } from './workload.ts';

/** Figures of the console in a real browser. */
interface ConsoleFigures extends BesideConsoles {
  readonly rows: number;
  /** At a quarter of the processor's speed, with nothing in the browser's cache, milliseconds. */
  readonly first_paint_ms: number;
  /** Until the largest part of the home page is there, milliseconds. */
  readonly largest_paint_ms: number;
  /** Scripts as they are sent, KiB: of the home page, and what each further page adds. */
  readonly first_scripts_kib: number;
  readonly further_scripts_kib: Readonly<Record<string, number>>;
  /** From a change of a filter until the rows are others, milliseconds. */
  readonly filter_ms: number;
  readonly filter_p99_ms: number;
  /** Longest time between two frames while 10,000 rows are scrolled, whole milliseconds, and rows that were loaded. */
  readonly longest_frame_ms: number;
  readonly scrolled_rows: number;
  /** From an interaction to the next paint, 75th percentile, milliseconds. */
  readonly interaction_p75_ms: number;
  readonly interactions: number;
}

const slowness = 4;
const dayMs = 86_400_000;

type Closers = (() => Promise<void>)[];

/** Ten million rows (half a million when `quick`), then each figure in a window of its own. */
export async function measureConsole(quick: boolean): Promise<ConsoleFigures> {
  buildConsole();
  const rows = quick ? 500_000 : 10_000_000;
  const store = await seededStore(rows);
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    folder: store.folder,
    config: consoleConfig(upstream.port),
  });
  const closers: Closers = [];
  const open = (place: string): Promise<Page> =>
    openWindow(
      { after: (close) => void closers.push(close) },
      { url: `http://127.0.0.1:${weir.port}`, ownerKey: benchKey },
      // A window that is offline for a while says so in its console.
      { place, expected: /.*/ },
    );
  /** Measures in a window of its own: those that are open go on asking. */
  const inWindow = async <F>(place: string, measure: (page: Page) => Promise<F>): Promise<F> => {
    const figures = await measure(await open(place));
    for (const close of closers.splice(0)) await close();
    return figures;
  };
  try {
    const paint = await inWindow('/console', (page) => paints(page, quick ? 3 : 7));
    const scripts = await inWindow('/console', scriptSizes);
    const filter = await inWindow(logsOf(store), (page) => filterTimes(page, quick ? 8 : 24));
    const scroll = await inWindow(logsOf(store), scrolling);
    const interaction = await inWindow(logsOf(store), interactions);
    const beside = await besideConsoles(weir.port, open, quick);
    return { rows, ...paint, ...scripts, ...filter, ...scroll, ...interaction, ...beside };
  } finally {
    for (const close of closers) await close();
    await closeBrowser();
    await weir.stop();
    await upstream.stop();
    if (!store.isKept) await removeFolder(store.folder);
  }
}

function consoleConfig(upstreamPort: number): string {
  const pipeline = '  - { name: console, match: { path: /console/** }, plugins: [console] }\n';
  return analyticsConfig(upstreamPort).replace('  - name: gateway\n', `${pipeline}  - name: gateway\n`);
}

/** The log of the seeded month, of which a custom range is asked for. */
function logsOf({ end }: SeededStore): string {
  const [from, to] = [end - 30 * dayMs, end].map((at) => encodeURIComponent(new Date(at).toISOString()));
  return `/console/logs?from=${from}&to=${to}`;
}

async function paints(page: Page, times: number) {
  const session = await debuggerOf(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowness });
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  const first: number[] = [];
  const largest: number[] = [];
  for (let time = 0; time < times; time += 1) {
    await page.goto('/console');
    await page.getByRole('navigation').first().waitFor();
    await page.waitForLoadState('networkidle');
    first.push(
      await page.evaluate<number>(
        `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN`,
      ),
    );
    largest.push(
      await page.evaluate<number>(`new Promise((resolve) => {
        new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime))
          .observe({ type: 'largest-contentful-paint', buffered: true });
      })`),
    );
  }
  return { first_paint_ms: median(first), largest_paint_ms: median(largest) };
}

/** Bytes of scripts that the browser got since the page was loaded, by their address. */
const scriptBytes = `Object.fromEntries(performance.getEntriesByType('resource')
  .filter(({ name }) => name.endsWith('.js')).map(({ name, encodedBodySize }) => [name, encodedBodySize]))`;

async function scriptSizes(page: Page) {
  const links = page.getByRole('navigation').first().getByRole('link');
  await page.goto('/console');
  await links.first().waitFor();
  await page.waitForLoadState('networkidle');
  const first = await page.evaluate<Record<string, number>>(scriptBytes);
  const places = await page.evaluate<string[]>(
    `[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href') ?? '')`,
  );
  const further: Record<string, number> = {};
  // What the list of configs leads to, with the editor.
  for (const place of new Set([...places, '/console/configs/new'])) {
    if (place === '/console' || place === '/console/') continue;
    await page.goto(place);
    await links.first().waitFor();
    await page.waitForLoadState('networkidle');
    const now = await page.evaluate<Record<string, number>>(scriptBytes);
    const added = Object.entries(now).filter(([name]) => !(name in first));
    further[place] = sum(added.map(([, bytes]) => bytes)) / 1024;
  }
  return { first_scripts_kib: sum(Object.values(first)) / 1024, further_scripts_kib: further };
}

/** Changes a filter in the address, as its controls do, and waits until the rows are those of another answer. */
async function filterTimes(page: Page, times: number) {
  await page.locator('[data-row]').first().waitFor();
  const url = new URL(page.url());
  const models = ['gpt-4o', 'claude-sonnet-4-5', 'gemini-2.5-flash', 'gpt-4o-mini'];
  const filters = [...models.map((model) => `ai_model=${model}`), 'cost_min=1'];
  const taken: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const [name = '', value = ''] = (filters[time % filters.length] ?? '').split('=');
    // Another end of the range each time: an answer from memory would cost nothing.
    const to = new Date(Date.parse(url.searchParams.get('to') ?? '') - time * 60_000).toISOString();
    const search = new URLSearchParams({ from: url.searchParams.get('from') ?? '', to, [name]: value });
    taken.push(
      await page.evaluate<number>(`new Promise((resolve, reject) => {
        const rows = () => [...document.querySelectorAll('[data-row]')].map((row) => row.dataset.row).join();
        const before = rows();
        const from = performance.now();
        const watch = new MutationObserver(() => {
          const now = rows();
          if (now === '' || now === before) return;
          watch.disconnect();
          requestAnimationFrame(() => resolve(performance.now() - from));
        });
        watch.observe(document.body, { childList: true, subtree: true, attributes: true });
        setTimeout(() => reject(new Error('The rows stay the same: ${name}=${value}')), 20000);
        history.pushState({}, '', ${JSON.stringify(`${url.pathname}?${search.toString()}`)});
      })`),
    );
  }
  const sorted = [...taken].sort((a, b) => a - b);
  return { filter_ms: median(taken), filter_p99_ms: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? NaN };
}

/** Scrolls until 10,000 rows have been loaded, as a wheel does, and looks at each frame. */
async function scrolling(page: Page) {
  await page.locator('[data-row]').first().waitFor();
  return page.evaluate<{ longest_frame_ms: number; scrolled_rows: number }>(`new Promise((resolve) => {
    let box = document.querySelector('[data-row]');
    while (box && !(box.scrollHeight > box.clientHeight && /auto|scroll/.test(getComputedStyle(box).overflowY))) box = box.parentElement;
    const rowHeight = document.querySelector('[data-row]').getBoundingClientRect().height;
    const begun = performance.now();
    let last = begun, longest = 0, frames = 0;
    const step = (now) => {
      if (frames++ > 5) longest = Math.max(longest, now - last);
      last = now;
      box.scrollTop += 900;
      const rows = Math.round(box.scrollHeight / rowHeight);
      if (rows >= 10000 && box.scrollTop + box.clientHeight >= 10000 * rowHeight || now - begun > 120000)
        resolve({ longest_frame_ms: Math.round(longest), scrolled_rows: Math.min(rows, Math.round((box.scrollTop + box.clientHeight) / rowHeight)) });
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`);
}

/** Walks rows, opens one, goes back, types into the search and opens the palette. */
async function interactions(page: Page) {
  await page.locator('[data-row]').first().waitFor();
  await page.evaluate(`window.took = [];
    new PerformanceObserver((list) => {
      for (const { interactionId, duration } of list.getEntries()) if (interactionId) window.took.push(duration);
    }).observe({ type: 'event', durationThreshold: 16, buffered: true }); undefined`);
  await page.locator('[data-row]').first().focus();
  for (let step = 0; step < 20; step += 1) await page.keyboard.press('j');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('playground', { delay: 40 });
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.keyboard.type('nobody wrote this', { delay: 40 });
  await page.locator('[data-search]').fill('');
  await page.locator('[data-row]').nth(3).click();
  await page.waitForURL(/\/logs\/[^?]+/);
  await page.goBack();
  await page.locator('[data-row]').first().waitFor();
  const took = await page.evaluate<number[]>('window.took');
  const sorted = [...took].sort((a, b) => a - b);
  // Interactions that took less than a frame are not told.
  return {
    interaction_p75_ms: sorted[Math.ceil(sorted.length * 0.75) - 1] ?? 16,
    interactions: sorted.length,
  };
}

function debuggerOf(page: Page): Promise<CDPSession> {
  return page.context().newCDPSession(page);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}

/** Prints the figures; `verdict` compares one with its bound. */
export function printConsole(
  figures: ConsoleFigures,
  verdict: (name: string, value: number, bound: number) => void,
): void {
  console.log(`\nthe console in Chromium, ${figures.rows} rows:`);
  verdict(`ms to the first paint of home, cold, at a quarter of the speed`, figures.first_paint_ms, 1000);
  console.log(`     ms to its largest part: ${figures.largest_paint_ms.toFixed(0)}`);
  verdict('KiB of scripts of the first page, as sent', figures.first_scripts_kib, 250);
  for (const [place, kib] of Object.entries(figures.further_scripts_kib))
    verdict(`KiB of scripts that ${place} adds`, kib, 100);
  verdict('ms from a change of a filter to its rows, median', figures.filter_ms, 300);
  console.log(`     p99 ${figures.filter_p99_ms.toFixed(0)}`);
  verdict(
    `longest ms between two frames while ${figures.scrolled_rows} rows scroll`,
    figures.longest_frame_ms,
    50,
  );
  verdict(
    `ms from an interaction to the next paint, p75 of ${figures.interactions}`,
    figures.interaction_p75_ms,
    200,
  );
  verdict(`p99 of requests with ${windows} consoles open / alone`, figures.beside_ratio, 1.1);
  console.log(
    `     the consoles keep ${figures.beside_streams} streams and make ${figures.beside_calls} calls in twelve seconds`,
  );
}
