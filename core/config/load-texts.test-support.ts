import assert from 'node:assert/strict';
import { loadConfig, type LoadResult } from './load-config.ts';
import { formatProblem } from './problem.ts';

/** Environment variables by name. */
export type Env = Record<string, string | undefined>;

/** Loads `/c/main.yaml` from texts by name; a missing name is a missing file. */
export function load(files: Record<string, string>, env: Env = {}): Promise<LoadResult> {
  const readFile = (path: string): Promise<Buffer> => {
    const text = files[path.replace('/c/', '')];
    if (text !== undefined) return Promise.resolve(Buffer.from(text));
    return Promise.reject(Object.assign(new Error('missing'), { code: 'ENOENT' }));
  };
  return loadConfig('/c/main.yaml', { env, readFile });
}

/** Problems of files that must be refused, one sentence each. */
export async function problemsOf(files: Record<string, string> | string, env?: Env): Promise<string[]> {
  const result = await load(typeof files === 'string' ? { 'main.yaml': files } : files, env);
  assert.ok(!result.ok, 'the configuration should be refused');
  return result.problems.map((problem) => formatProblem(problem).replaceAll('/c/', ''));
}

/** The configuration of files that must be valid. */
export async function configOf(files: Record<string, string> | string, env?: Env) {
  const result = await load(typeof files === 'string' ? { 'main.yaml': files } : files, env);
  assert.deepEqual(result.ok ? [] : result.problems.map(formatProblem), []);
  assert.ok(result.ok);
  return result;
}

/** One pipeline, so that tests only supply the rest. */
export const pipelines = 'pipelines: [{ name: gateway, match: { path: /** }, plugins: [auth] }]\n';
/** The smallest valid file. */
export const minimal = `version: 1\n${pipelines}`;
