/** Flags of this process that must not be handed to a child: they open ports, run tests, watch files or hold code. */
const notInherited =
  /^--?(inspect|debug|test|watch|experimental-test|prof|cpu-prof|heap-prof|diagnostic-dir)/;
const withCode = new Set(['-e', '--eval', '-p', '--print', '-pe']);

/**
 * Node's flags for a child that runs a file of our own sources: those of this process that make sense there, and the
 * loader for TypeScript when nothing of the kind is among them. Other runtimes take TypeScript as it is.
 */
export function childArguments(execArgv: readonly string[], loader: string | undefined): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i += 1) {
    const flag = execArgv[i] as string;
    if (withCode.has(flag)) i += 1;
    else if (!notInherited.test(flag)) kept.push(flag);
    // What follows a flag and is none is its value.
    else if (execArgv[i + 1]?.startsWith('-') === false) i += 1;
  }
  const loads = kept.some((flag) => /\btsx\b|transform-types|strip-types/.test(flag));
  return loads || loader === undefined ? kept : [...kept, '--import', loader];
}

/** Where the loader for TypeScript is, or undefined on a runtime that needs none. */
export function typeScriptLoader(): string | undefined {
  return 'deno' in process.versions || 'bun' in process.versions ? undefined : import.meta.resolve('tsx');
}
