// `npm run docs`: the site of docs/, served while pages are written; `npm run docs -- build` writes it to dist/site, and
// fails for a dead link and for a page that would ask another host for something.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { renderReference } from '../core/http/openapi/render-reference.ts';
import { wholeDocument } from '../tests/kit/openapi-kit.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const site = path.join(root, 'site');
const target = path.join(root, 'dist', 'site');
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
  const asked = readdirSync(target, { recursive: true, encoding: 'utf8' }).flatMap((name) =>
    requestsOf(name),
  );
  for (const one of asked) console.error(one);
  if (asked.length > 0) process.exit(1);
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

function run(program: string, args: readonly string[]): void {
  const { status } = spawnSync(program, args, { cwd: site, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
