import type { GroupBy, RequestFilter, SeriesSplit } from '../../core/ports/analytics.ts';
import type { UsageQuestion } from './usage-question.ts';

/** Where roll-ups by the hour and the day have the answer to a question. */
export interface RollUp {
  /** '' for all requests. */
  readonly dimension: string;
  /** What is asked of a whole organisation is there at once, as another dimension. */
  readonly isWhole: boolean;
  /** The column that tells requests apart; empty when they are not. */
  readonly split: 'value' | 'workspace_id' | '';
  /** With the values of their placeholders. */
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Filters that are values of a dimension. */
const dimensions = {
  aiServices: 'ai_service',
  models: 'model',
  providers: 'provider',
  configs: 'config',
  prompts: 'prompt',
  apiKeys: 'api_key',
  users: 'user',
  statusCodes: 'status_code',
} as const satisfies Partial<Record<keyof RequestFilter, GroupBy | SeriesSplit>>;

/** Dimensions that are told of workspaces only. */
const perWorkspace = new Set<string>(['api_key', 'user']);

/**
 * Which roll-ups answer a question, or undefined when only rows do: roll-ups know one dimension at a time, and nothing
 * of who sent a request.
 */
export function rolledUpAs({ visibility, filter = {}, split }: UsageQuestion): RollUp | undefined {
  if (visibility.userId !== undefined || visibility.apiKeyId !== undefined) return undefined;
  if (typeof split === 'object') return undefined;
  const { workspaces, ...others } = filter;
  const [only, ...more] = Object.entries(others).filter(([, value]) => value !== undefined);
  if (more.length > 0) return undefined;
  const filtered = only && dimensionOf(only[0]);
  if (only !== undefined && filtered === undefined) return undefined;
  const own = split === undefined || split === 'workspace' ? undefined : split;
  if (own !== undefined && filtered !== undefined && own !== filtered) return undefined;
  const dimension = own ?? filtered ?? '';

  const conditions: string[] = [];
  const parameters: Record<string, unknown> = {};
  const oneOf = (column: string, name: string, values: readonly (string | number)[]): void => {
    conditions.push(values.length === 0 ? 'false' : `${column} IN {${name}:Array(String)}`);
    parameters[name] = values.map(String);
  };
  if (only !== undefined) oneOf('value', 'rolled_up_values', only[1] as readonly (string | number)[]);
  if (workspaces !== undefined) oneOf('workspace_id', 'rolled_up_workspaces', workspaces);
  const isWhole =
    !perWorkspace.has(dimension) &&
    visibility.workspaceId === undefined &&
    workspaces === undefined &&
    split !== 'workspace';
  return {
    dimension,
    isWhole,
    split: split === 'workspace' ? 'workspace_id' : own === undefined ? '' : 'value',
    ...{ conditions, parameters },
  };
}

function dimensionOf(name: string): (GroupBy & string) | SeriesSplit | undefined {
  return Object.hasOwn(dimensions, name) ? dimensions[name as keyof typeof dimensions] : undefined;
}
