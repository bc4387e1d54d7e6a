import { createHash } from 'node:crypto';
import { basename, resolve } from 'node:path';
import { replaceText } from '../base/durable-file.ts';
import { configJsonSchema } from '../config/json-schema.ts';
import { loadConfig } from '../config/load-config.ts';
import { maskText, unmaskText } from '../config/masked-text.ts';
import { formatProblem, type Problem } from '../config/problem.ts';
import { maxConfigFileBytes, readBytes, readText } from '../config/read-file.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ConfigDraftText, ConfigFault, ConfigFileEditor, ConfigText } from '../ports/config-file.ts';
import { checkPlugins, prepareGeneration, type PrepareSources } from './prepare.ts';
import type { Reloader } from './reload.ts';

/** What an editor needs of its gateway. */
interface EditorOptions {
  /** The main file, as its problems name it. */
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly sources: PrepareSources;
  readonly reloader: () => Pick<Reloader<unknown>, 'reload' | 'current' | 'lastError' | 'restartNeeded'>;
}

/** The file as it is on disk. */
interface Current {
  readonly text: string;
  readonly version: string;
  readonly masked: ReturnType<typeof maskText>;
}

/** A draft with the secrets of the file. */
interface Unmasked {
  readonly text: string;
  /** Faults of its masks. */
  readonly faults: readonly ConfigFault[];
  /** The place in the draft as given of one in `text`. */
  place(line: number, column: number): { readonly line: number; readonly column: number };
}

/** Edits the main file of a configuration for its operators. */
export class MainFileEditor implements ConfigFileEditor {
  readonly #options: EditorOptions;
  #tail: Promise<unknown> = Promise.resolve();
  #schema: Readonly<Record<string, unknown>> | undefined;

  constructor(options: EditorOptions) {
    this.#options = options;
  }

  async read(): Promise<ConfigText> {
    const name = basename(this.#options.file);
    const read = await readText(resolve(this.#options.file), maxConfigFileBytes);
    if (!read.ok)
      return { name, text: undefined, reason: `The file ${read.message}.`, masked: 0, version: '' };
    const masked = maskText(read.text);
    return {
      name,
      text: masked?.text,
      reason:
        masked === undefined
          ? 'The file is no valid YAML, so what is secret in it cannot be told. Correct it on disk; the reloads say where.'
          : undefined,
      masked: masked?.secrets.length ?? 0,
      version: versionOf(read.text),
    };
  }

  schema(): Readonly<Record<string, unknown>> {
    this.#schema ??= configJsonSchema([...this.#options.sources.builtIns.values()]);
    return this.#schema;
  }

  async check(draft: ConfigDraftText): Promise<readonly ConfigFault[]> {
    const { unmasked } = await this.#unmasked(draft);
    return this.#faults(unmasked, true);
  }

  /** The whole text with the secrets of the file. Throws `invalid_config` for one with faults, after a whole check. */
  async usable(draft: ConfigDraftText): Promise<string> {
    const { unmasked } = await this.#unmasked(draft);
    const errors = (await this.#faults(unmasked, false)).filter(({ severity }) => severity === 'error');
    if (errors.length > 0) throw refused(errors);
    return unmasked.text;
  }

  async write(draft: ConfigDraftText, written: () => Promise<void>) {
    const turn = this.#tail.then(() => this.#write(draft, written));
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  async #write(draft: ConfigDraftText, written: () => Promise<void>) {
    const { current, unmasked } = await this.#unmasked(draft);
    const faults = await this.#faults(unmasked, false);
    const errors = faults.filter(({ severity }) => severity === 'error');
    if (errors.length > 0) throw refused(errors);
    const reloader = this.#options.reloader();
    const serving = reloader.current;
    await replace(this.#options.file, unmasked.text);
    try {
      await written();
    } catch (error) {
      await replace(this.#options.file, current.text);
      throw error;
    }
    const outcome = await reloader.reload('its file was written over the administration API');
    if (outcome !== 'failed')
      return {
        // The watch of the file may have been faster.
        outcome: reloader.current === serving ? ('unchanged' as const) : ('swapped' as const),
        faults,
        version: versionOf(unmasked.text),
        restartNeeded: reloader.restartNeeded,
      };
    const problems = reloader.lastError?.problems ?? [];
    // A restart would otherwise find a file that does not start.
    await replace(this.#options.file, current.text);
    await reloader.reload('its file has its former text again');
    return {
      outcome: 'failed' as const,
      faults: problems.map((problem) => faultOf(problem, unmasked, this.#options.file)),
      version: current.version,
      restartNeeded: reloader.restartNeeded,
    };
  }

  /** The draft with the secrets of the file. Throws `version_mismatch` when the file is another one now. */
  async #unmasked({ text, version }: ConfigDraftText): Promise<{ current: Current; unmasked: Unmasked }> {
    const read = await readText(resolve(this.#options.file), maxConfigFileBytes);
    if (!read.ok) throw new GatewayError('resource_conflict', `The configuration file ${read.message}.`);
    const current = { text: read.text, version: versionOf(read.text), masked: maskText(read.text) };
    if (version !== current.version)
      throw new GatewayError(
        'version_mismatch',
        'The configuration file has changed since you read it. Read it again, then repeat your change with its version.',
      );
    return { current, unmasked: withSecrets(text, current.masked?.secrets ?? [], this.#options.file) };
  }

  async #faults(unmasked: Unmasked, withoutCode: boolean): Promise<readonly ConfigFault[]> {
    if (unmasked.faults.length > 0) return unmasked.faults;
    const { file, env } = this.#options;
    const main = resolve(file);
    const bytes = new TextEncoder().encode(unmasked.text);
    const loaded = await loadConfig(file, {
      env,
      readFile: async (one) => (one === main ? bytes : readBytes(one)),
    });
    const sources = { ...this.#options.sources, withoutCode };
    let problems: readonly Problem[];
    if (!loaded.ok) {
      const { draft, problems: found } = loaded;
      problems = draft === undefined ? found : await checkPlugins({ ...draft, ...sources }, found);
    } else {
      const { config, source, warnings } = loaded;
      const prepared = await prepareGeneration({ config, source, ...sources });
      problems = prepared.ok ? [...warnings, ...prepared.prepared.warnings] : prepared.problems;
    }
    return problems.map((problem) => faultOf(problem, unmasked, file));
  }
}

/** A problem for a client: without the folders of its file, at its place in the text with masks. */
function faultOf(problem: Problem, unmasked: Unmasked, main: string): ConfigFault {
  const { file, line, column, message, severity = 'error' } = problem;
  const place = file === main && line > 0 ? unmasked.place(line, column) : { line, column };
  return { file: basename(file), ...place, message, severity };
}

function withSecrets(text: string, secrets: readonly string[], file: string): Unmasked {
  const found = unmaskText(text, secrets);
  const message =
    'this mask stands for a secret that is not in the file; write the secret, or better a reference to a variable such as ${NAME}';
  return {
    text: found.text,
    faults: found.unknown.map((offset) => ({
      ...{ file: basename(file), ...placeAt(text, offset), message, severity: 'error' },
    })),
    place: (line, column) => placeAt(text, found.masked(offsetAt(found.text, line, column))),
  };
}

function placeAt(text: string, offset: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return { line: before.split('\n').length, column: offset - lineStart + 1 };
}

function offsetAt(text: string, line: number, column: number): number {
  let start = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf('\n', start);
    if (end === -1) break;
    start = end + 1;
  }
  return start + column - 1;
}

function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function refused(errors: readonly ConfigFault[]): GatewayError {
  const [first] = errors;
  const more = errors.length > 1 ? `, and ${errors.length - 1} more` : '';
  const told = first === undefined ? '' : formatProblem({ ...first, path: '' });
  return new GatewayError('invalid_config', `The configuration was not written: ${told}${more}.`, {
    param: '/text',
    extra: { errors: errors.map((one) => ({ path: '/text', message: formatProblem({ ...one, path: '' }) })) },
  });
}

/** Replaces the file. Throws `resource_conflict`, with the reason, when the folder or the file cannot be written. */
async function replace(file: string, text: string): Promise<void> {
  try {
    await replaceText(resolve(file), text);
  } catch (error) {
    throw new GatewayError('resource_conflict', unwritable(error), { cause: error });
  }
}

function unwritable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
  const remedies: Readonly<Record<string, string>> = {
    EBUSY: 'It is mounted by itself: mount its folder instead.',
    EROFS: 'Its folder is read-only: mount it writable.',
    EACCES: 'Let the user of the gateway write its folder.',
    EPERM: 'Let the user of the gateway write its folder.',
    ENOSPC: 'The disk is full.',
  };
  return `The configuration file cannot be replaced (${code}). ${remedies[code] ?? 'Change it on disk.'}`;
}
