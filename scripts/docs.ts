// `npm run docs`: the site of docs/, served while pages are written; `npm run docs -- build` writes it to dist/site, and
// fails for a dead link, for a page that would ask another host for something, and for one that is wider than its window.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { renderReference } from '../core/http/openapi/render-reference.ts';
import { findBrowserProgram } from '../tests/browser/console-kit.ts';
import { wholeDocument } from '../tests/kit/openapi-kit.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const site = path.join(root, 'site');
const target = path.join(root, 'dist', 'site');
/** Windows that pages have to fit: of a telephone and of a small computer. */
const windowWidths = [390, 1280];
const pagesAtOnce = 2;
const types: Readonly<Record<string, string>> = {
  ...{ '.html': 'text/html', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png' },
  ...{ '.js': 'text/javascript', '.json': 'application/json' },
};

const [command = 'dev', ...rest] = process.argv.slice(2);
if (command !== 'dev' && command !== 'build') {
  console.error('Use `npm run docs` while you write, or `npm run docs -- build`.');
  process.exit(1);
}
install();
await writePublic();
const vitepress = path.join(site, 'node_modules', 'vitepress', 'bin', 'vitepress.js');
run(process.execPath, [vitepress, command, ...rest]);
if (command === 'build') {
  const files = readdirSync(target, { recursive: true, encoding: 'utf8' });
  const faults = files.flatMap((name) => [...requestsOf(name), ...deadLinksOf(name)]);
  const program = findBrowserProgram();
  if (program === undefined)
    console.warn('No Chromium is installed: whether pages fit narrow windows is not looked at.');
  else faults.push(...(await widePages(files, program)));
  for (const one of faults) console.error(one);
  if (faults.length > 0) process.exit(1);
  console.log('The site is in dist/site.');
}

/** The packages of the site, from their own lock file. */
function install(): void {
  const lock = readFileSync(path.join(site, 'package-lock.json'), 'utf8');
  const mark = path.join(site, 'node_modules', '.weir-lock');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) return;
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error']);
  writeFileSync(mark, lock);
}

/** What stands on the site beside the pages: the interface, and the examples that pages link to. */
async function writePublic(): Promise<void> {
  const place = path.join(site, 'public');
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place);
  const { document } = await wholeDocument();
  writeFileSync(path.join(place, 'openapi.json'), JSON.stringify(document));
  writeFileSync(path.join(place, 'api.html'), renderReference(document));
  cpSync(path.join(root, 'examples'), path.join(place, 'examples'), { recursive: true });
  const figures = path.join('performance', 'bench.json');
  cpSync(path.join(root, 'docs', figures), path.join(place, figures));
}

/** What a browser would fetch from another host for a file of the site. */
function requestsOf(name: string): readonly string[] {
  if (!/\.(html|css)$/.test(name)) return [];
  const text = readFileSync(path.join(target, name), 'utf8');
  const found = text.matchAll(
    /<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="((?:https?:)?\/\/[^"]*)"|url\(["']?((?:https?:)?\/\/[^)]*)|@import\s*["'](https?:[^"']*)/g,
  );
  return [...found].map(
    ([, ...places]) => `dist/site/${name} asks for ${places.find((one) => one !== undefined) ?? ''}`,
  );
}

/** Links of a page to files that the site does not have. VitePress looks at links between pages alone. */
function deadLinksOf(name: string): readonly string[] {
  if (!name.endsWith('.html')) return [];
  const text = readFileSync(path.join(target, name), 'utf8');
  const links = new Set([...text.matchAll(/\bhref="([^"#?:]+)["#?]/g)].map(([, link = '']) => link));
  return [...links].flatMap((link) => {
    const from = link.startsWith('/') ? target : path.join(target, path.dirname(name));
    return existsSync(path.join(from, decodeURIComponent(link)))
      ? []
      : [`dist/site/${name} links to ${link}, which is not there`];
  });
}

/** Pages that scroll sideways. They are looked at as they are written, without their scripts, which takes a third of the time. */
async function widePages(files: readonly string[], executablePath: string): Promise<readonly string[]> {
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site');
    readFile(path.join(target, path.normalize(decodeURIComponent(pathname)))).then(
      (bytes) => {
        response.writeHead(200, {
          'content-type': types[path.extname(pathname)] ?? 'application/octet-stream',
        });
        response.end(bytes);
      },
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  const found: string[] = [];
  const left = files.filter((name) => name.endsWith('.html'));
  const look = async (page: Page): Promise<void> => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      await page.goto(`http://127.0.0.1:${port}/${name}`);
      for (const width of windowWidths) {
        await page.setViewportSize({ width, height: 800 });
        const needs = await page.evaluate('document.documentElement.scrollWidth');
        if (Number(needs) > width)
          found.push(`dist/site/${name} is ${String(needs)} px wide in a window of ${width} px`);
      }
    }
  };
  try {
    const context = await browser.newContext({ javaScriptEnabled: false });
    await Promise.all(Array.from({ length: pagesAtOnce }, async () => look(await context.newPage())));
  } finally {
    await browser.close();
    server.close();
  }
  return found;
}

function run(program: string, args: readonly string[]): void {
  const { status } = spawnSync(program, args, { cwd: site, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
