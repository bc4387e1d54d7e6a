import type { ConfigSource } from '../config/config-source.ts';
import { mayBeSecretName } from '../config/masked-text.ts';
import type { PipelineConfig } from '../config/schema.ts';
import { childPointer, isJsonObject } from '../base/json.ts';

/** Stands for a value that is not shown. */
const mask = '***';
/** Longest text of an option that is shown, in UTF-16 units. */
const maxText = 200;
/** Most members of an object or items of a list that are shown, and deepest nesting. */
const maxMembers = 50;
const maxDepth = 8;
/** What an address says of its user. */
const userOfAddress = /:\/\/[^/\s@]*@/g;
/** Parameters of an address that may be credentials. */
const queryOfAddress = /^([a-z][a-z0-9+.-]*:[^?\s]*)\?.*$/i;

/** A pipeline that serves, for operators. */
interface ShownPipeline {
  readonly name: string;
  readonly match: PipelineConfig['match'];
  readonly plugins: readonly {
    readonly name: string;
    readonly options: unknown;
    readonly on_error?: 'fail' | 'skip';
    readonly timeout_ms?: number;
    readonly isolated?: true;
    /** Where it stands: `gateway.config.yaml:12:7`. */
    readonly place: string;
  }[];
}

/**
 * The pipelines of a configuration with the options of their plugins. Values with secret names, or made of variables
 * and files, are left out: variables are named instead.
 */
export function shownPipelines(
  pipelines: readonly PipelineConfig[],
  source: Pick<ConfigSource, 'locate' | 'origin'>,
): readonly ShownPipeline[] {
  return pipelines.map(({ name, match, plugins }) => ({
    name,
    match,
    plugins: plugins.map(({ use, options, onError, timeoutMs, isolate, pointer, optionsPointer }) => {
      const { file, line, column } = source.locate(pointer);
      return {
        name: use,
        options: shown(options, { pointer: optionsPointer, isSecret: false, depth: 0, source }),
        ...(onError !== undefined && { on_error: onError }),
        ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }),
        ...(isolate !== undefined && { isolated: true as const }),
        place: `${file}:${line}:${column}`,
      };
    }),
  }));
}

interface Showing {
  readonly pointer: string;
  /** It stands under a secret name. */
  readonly isSecret: boolean;
  readonly depth: number;
  readonly source: Pick<ConfigSource, 'origin'>;
}

function shown(value: unknown, showing: Showing): unknown {
  const { pointer, isSecret, depth, source } = showing;
  if (Array.isArray(value) || isJsonObject(value)) {
    if (depth >= maxDepth) return '…';
    const inner = (name: string | number, member: unknown): unknown =>
      shown(member, {
        ...showing,
        pointer: childPointer(pointer, name),
        isSecret: isSecret || (typeof name === 'string' && mayBeSecretName(name)),
        depth: depth + 1,
      });
    if (Array.isArray(value)) return value.slice(0, maxMembers).map((item, index) => inner(index, item));
    return Object.fromEntries(
      Object.entries(value)
        .slice(0, maxMembers)
        .map(([name, member]) => [name, inner(name, member)]),
    );
  }
  const origin = source.origin(pointer);
  if (origin !== undefined) return origin.names.join('');
  if (isSecret && (typeof value === 'string' || typeof value === 'number')) return mask;
  if (typeof value !== 'string') return value;
  const text = value.replace(userOfAddress, `://${mask}@`).replace(queryOfAddress, `$1?${mask}`);
  return text.length > maxText ? `${text.slice(0, maxText)}…` : text;
}
