/**
 * The blocks of code in the documents: of the README, of docs and of the folders below it, of deploy. Each is run or judged
 * by a test, or is an exception with a reason, which is judged as far as it can be.
 */
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);

/** A fenced block. */
export interface Sample {
  /** `docs/cache.md:12`, its first line. */
  readonly place: string;
  readonly document: string;
  /** `yaml`, `ts`, `json`, `sh` …; empty when the fence names none. */
  readonly language: string;
  readonly text: string;
  /** The heading that it stands below. */
  readonly section: string;
}

/** The blocks of a document, in their order; `document` is its path below the root. */
export async function samplesOf(document: string): Promise<readonly Sample[]> {
  const lines = (await readFile(new URL(document, root), 'utf8')).split('\n');
  const samples: Sample[] = [];
  let open: { indent: string; language: string; at: number } | undefined;
  let section = '';
  lines.forEach((line, at) => {
    if (open === undefined && /^#+ /.test(line)) section = line.replace(/^#+ /, '');
    const [, indent = '', language = ''] = /^(\s*)(?:```|~~~)(\w*)/.exec(line) ?? [];
    if (!/^\s*(```|~~~)/.test(line)) return;
    if (open === undefined) {
      open = { indent, language, at };
      return;
    }
    const { indent: depth, language: of, at: begin } = open;
    const text = lines.slice(begin + 1, at).map((one) => one.slice(depth.length));
    samples.push({
      place: `${document}:${begin + 2}`,
      document,
      language: of,
      text: text.join('\n'),
      section,
    });
    open = undefined;
  });
  if (open !== undefined) throw new Error(`${document} has a block of code that does not end.`);
  return samples;
}

/** Paths of all documents for users, below the root. */
export async function documents(): Promise<readonly string[]> {
  const below = async (folder: string): Promise<readonly string[]> => {
    const found = await readdir(fileURLToPath(new URL(`${folder}/`, root)), { recursive: true });
    return found
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
      .filter((name) => name.endsWith('.md') && !name.includes('/node_modules/'))
      .sort();
  };
  const top = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  return [...top, ...(await below('docs')), ...(await below('deploy'))];
}

/** Tests that follow a page from its beginning to its end: its commands, its configurations and what it shows of them. */
export function runsWithItsPage({ document, language, text }: Sample): boolean {
  if (document === 'docs/recipes.md') return true;
  if (!document.startsWith('docs/guides/') || document === 'docs/guides/production.md') return false;
  return language === 'sh' ? /\b(curl|npx weir) /.test(text) : ['yaml', 'text'].includes(language);
}

/** A block that no test runs. */
interface Exception {
  readonly document: string;
  /** Words of the block that no other block of the document has. */
  readonly says: string;
  readonly because: string;
}

const clones = 'works on a clone of the repository, and serves or tests until it is ended';
const containers = 'builds or starts containers';
const cluster = 'needs a Kubernetes cluster';
const picture = 'is a picture';
const measured = 'was measured over minutes or hours';
const judged = 'is judged by tests/integration/document-samples-shown.test.ts';

/**
 * The blocks that no test runs as they stand on their page. Another test judges some of them, which the reason names;
 * `document-samples.test.ts` looks at what is in the rest without running them.
 */
export const exceptions: readonly Exception[] = [
  { document: 'README.md', says: 'npm start', because: clones },
  { document: 'docs/guides/start.md', says: 'npm start', because: clones },
  { document: 'docs/guides/start.md', says: 'export WEIR_KEY', because: 'keeps the key of the reader' },
  { document: 'docs/clickhouse.md', says: 'CLICKHOUSE_TEST_URL', because: 'needs a ClickHouse server' },
  { document: 'docs/clickhouse.md', says: 'seed:demo', because: 'writes a million rows' },
  { document: 'docs/clickhouse.md', says: 'CREATE USER weir', because: judged },
  { document: 'docs/clickhouse.md', says: 'CREATE DATABASE weir_all', because: judged },
  { document: 'docs/clickhouse.md', says: 'FROM system.parts', because: judged },
  { document: 'docs/clickhouse.md', says: 'FROM weir.usage_days', because: judged },
  {
    document: 'docs/postgres.md',
    says: 'CREATE ROLE weir',
    because: 'is judged by tests/integration/administration-plan.test.ts',
  },
  { document: 'docs/deployment.md', says: 'docker run -d', because: containers },
  { document: 'docs/deployment.md', says: 'NODE_IMAGE=', because: containers },
  { document: 'docs/deployment.md', says: 'docker compose', because: containers },
  { document: 'docs/deployment.md', says: 'sudo systemctl', because: 'needs root and systemd' },
  { document: 'docs/kubernetes.md', says: 'docker buildx', because: containers },
  { document: 'docs/kubernetes.md', says: 'create secret generic weir \\', because: cluster },
  { document: 'docs/kubernetes.md', says: 'rollout status', because: cluster },
  { document: 'docs/kubernetes.md', says: 'weir-identity', because: cluster },
  { document: 'docs/kubernetes.md', says: 'prometheus-adapter', because: cluster },
  { document: 'docs/kubernetes.md', says: 'prometheusRule.rules', because: cluster },
  { document: 'deploy/helm/weir/README.md', says: 'helm upgrade', because: cluster },
  { document: 'docs/performance.md', says: '--peers none', because: 'measures for minutes' },
  { document: 'docs/performance.md', says: 'scripts/weir.mjs bench', because: 'measures for minutes' },
  {
    document: 'docs/plugins.md',
    says: 'npx weir plugin new',
    because: 'is judged by tests/installed-package/package.test.ts',
  },
  { document: 'docs/telemetry.md', says: 'OTEL_EXPORTER', because: judged },
  {
    document: 'docs/safe-change.md',
    says: ' plan --config',
    because: 'is judged by tests/integration/plan-command.test.ts',
  },
  {
    document: 'docs/safe-change.md',
    says: ' apply --config',
    because: 'is judged by tests/integration/apply-command.test.ts',
  },
  {
    document: 'docs/administration.md',
    says: '4c9f…',
    because: 'is judged by storage/postgres/export-import.test.ts',
  },
  { document: 'docs/alerts.md', says: 'webhook-signature: v1', because: judged },
  { document: 'docs/alerts.md', says: '"current_usage"', because: judged },
  { document: 'docs/deployment.md', says: '"degraded"', because: judged },
  { document: 'docs/deployment.md', says: 'option httpchk', because: judged },
  {
    document: 'docs/explain.md',
    says: '"headers": {',
    because: 'is judged by tests/integration/document-commands.test.ts',
  },
  { document: 'docs/log-privacy.md', says: '"I am ann@example.com" }]', because: judged },
  { document: 'docs/log-privacy.md', says: '[not logged]" }]', because: judged },
  { document: 'docs/realtime.md', says: 'Upgrade: websocket', because: judged },
  { document: 'docs/scaling.md', says: 'cores of gateways', because: 'is arithmetic' },
  { document: 'docs/scaling.md', says: 'over limit', because: measured },
  { document: 'docs/life-of-a-request.md', says: 'core/pipeline', because: picture },
  { document: 'ARCHITECTURE.md', says: 'plugins/', because: picture },
];

/** The exception that this block is. */
export function exceptionOf({ document, text }: Sample): Exception | undefined {
  return exceptions.find((one) => one.document === document && text.includes(one.says));
}

/** What a page shows of an output: its lines in their order, and anything between them. `…` stands for anything. */
export function shown(text: string): RegExp {
  const parts = text.split(/…|\n/).map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(parts.join('[^]*'));
}

/** The same for an output whose figures, ids and names in parentheses are others. Its command, behind `$`, is left out. */
export function shownInForm(text: string): RegExp {
  const output = text.replaceAll(/^\$ .*\n/gm, '');
  return shown(
    output.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\d+(?:\.\d+)?(?![-\w])/g, '…').replaceAll(/…+/g, '…'),
  );
}

/**
 * What an answer lacks of the JSON that a page shows: its members with values of the same kind, and of each list at least
 * one entry like each that is shown. Numbers and names are those of the day when the page was written.
 */
export function missingFrom(answer: unknown, shownValue: unknown, place = ''): readonly string[] {
  if (shownValue === null || answer === null) return [];
  if (Array.isArray(shownValue)) {
    if (!Array.isArray(answer)) return [`${place || '/'} is no list`];
    const entries: readonly unknown[] = answer;
    return shownValue.flatMap((wanted, at) => {
      const lacks = entries.map((entry) => missingFrom(entry, wanted, `${place}/${at}`));
      return lacks.some((one) => one.length === 0) ? [] : (lacks[0] ?? [`${place}/${at} is not there`]);
    });
  }
  if (typeof shownValue !== typeof answer) return [`${place || '/'} is a ${typeof answer}`];
  if (typeof shownValue !== 'object') {
    const isWord = /\/(object|status|type|code|errorCode|format)$/.test(place);
    return isWord && shownValue !== answer ? [`${place} is ${JSON.stringify(answer)}`] : [];
  }
  const members = new Map<string, unknown>(Object.entries(Object(answer)));
  return Object.entries(Object(shownValue) as object).flatMap(([name, value]) =>
    members.has(name)
      ? missingFrom(members.get(name), value, `${place}/${name}`)
      : [`${place}/${name} is not there`],
  );
}
