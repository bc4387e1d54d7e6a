import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Document, isAlias, isMap, parseDocument } from 'yaml';
import { type LoadResult, loadConfig } from '../../core/config/load-config.ts';
import { formatProblem } from '../../core/config/problem.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';

/** The provider that the copy has in addition. */
const standIn = 'weir-bench';
/** Stores within the gateway, which are new for a new data folder. */
const embedded = /^(pglite|chdb|memory|file|none):$/;
const storeNames = ['resources', 'analytics', 'counters', 'cache', 'jobs'] as const;

/** A copy of the operator's configuration, whose provider is the stand-in. */
export interface BenchConfig {
  readonly file: string;
  /** Provider that the requests name. */
  readonly provider: string;
  readonly headerPrefix: string;
  readonly basePath: string;
  /** What the copy has not, for the operator. */
  readonly notes: readonly string[];
  remove(): Promise<void>;
}

interface CopyOptions {
  /** Address of the stand-in. */
  readonly url: string;
  /** Providers of the configuration that get this address. */
  readonly providers: readonly string[];
  readonly keepStorage: boolean;
}

/**
 * Writes the copy beside the original, where relative names of plugins and files hold. Rejects, with nothing left
 * behind, when the configuration is invalid or cannot be copied.
 */
export async function copyConfig(original: string, options: CopyOptions): Promise<BenchConfig> {
  const { config, source } = await loaded(original);
  const notes: string[] = [];
  const document = parseDocument(await readFile(original, 'utf8'));
  const { url, providers, keepStorage } = options;
  setProvider(document, standIn, { dialect: 'openai-chat', base_url: url, service: 'openai' });
  for (const slug of providers) {
    if (!Object.hasOwn(config.providers, slug))
      notes.push(`providers.${slug} is not in the file: it is added`);
    setProvider(document, slug, { base_url: url });
  }
  if (!keepStorage) {
    const left: string[] = [];
    for (const name of storeNames) {
      const store = config.storage[name];
      if (store?.url === undefined || embedded.test(store.url)) continue;
      left.push(`storage.${name}`);
      leaveOut(document, ['storage', name], source, original);
    }
    if (document.hasIn(['telemetry', 'otlp'])) {
      left.push('telemetry.otlp');
      leaveOut(document, ['telemetry', 'otlp'], source, original);
    }
    if (left.length > 0)
      notes.push(
        `${left.join(', ')} of the configuration left out, so that no row of the bench gets there: embedded stores in a temporary folder instead (--keep-storage keeps them)`,
      );
  }
  const file = path.join(path.dirname(original), `.weir-bench-${process.pid}.${path.basename(original)}`);
  const remove = (): Promise<void> => rm(file, { force: true });
  try {
    await writeFile(file, document.toString({ lineWidth: 0 }), { mode: 0o600, flag: 'wx' });
    const copied = await loaded(file);
    const { header_prefix: headerPrefix, base_path: basePath } = copied.config.server;
    return { file, provider: providers[0] ?? standIn, headerPrefix, basePath, notes, remove };
  } catch (error) {
    await remove();
    if (!(error instanceof Error && 'code' in error)) throw error;
    throw new Error(
      `The copy of ${path.basename(original)} cannot be written beside it: ${messageOf(error)}. Copy the configuration, with its plugins, to a folder where you may write.`,
      { cause: error },
    );
  }
}

type Valid = Extract<LoadResult, { ok: true }>;

async function loaded(file: string): Promise<Valid> {
  const result = await loadConfig(file, { env: process.env });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result;
}

function setProvider(document: Document, slug: string, members: Readonly<Record<string, string>>): void {
  const present = document.get('providers', true);
  const map = isAlias(present) ? present.resolve(document) : present;
  if (!isMap(map)) document.set('providers', document.createNode({ [slug]: members }));
  else if (!isMap(map.get(slug, true))) map.set(document.createNode(slug), document.createNode(members));
  else {
    // The other spelling of the same key would be a second value.
    map.deleteIn([slug, 'baseUrl']);
    for (const [name, value] of Object.entries(members)) map.setIn([slug, name], value);
  }
}

function leaveOut(
  document: Document,
  keys: readonly string[],
  source: Valid['source'],
  original: string,
): void {
  const file = source.fileOf(`/${keys.join('/')}`);
  if (file !== original)
    throw new Error(
      `${keys.join('.')} is in ${file}, which the configuration includes, and the bench changes a copy of ${path.basename(original)} alone. Give --keep-storage to use that store, which then gets the rows of the bench.`,
    );
  document.deleteIn(keys);
}
