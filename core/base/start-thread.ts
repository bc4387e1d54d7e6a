import { Worker, type WorkerOptions } from 'node:worker_threads';

/** Starts a source file of the gateway as a thread, from its build or as TypeScript. */
export function startThread(entry: URL, options: WorkerOptions = {}): Worker {
  const isReady = !entry.pathname.endsWith('.ts') || 'deno' in process.versions;
  return isReady
    ? new Worker(entry, options)
    : new Worker(loading(entry), { ...options, eval: true, execArgv: [] });
}

/** Threads do not inherit this one's loader for TypeScript. */
function loading(entry: URL): string {
  const loader = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  return `import(${loader}).then(({ register }) => { register(); return import(${JSON.stringify(entry.href)}); })`;
}
