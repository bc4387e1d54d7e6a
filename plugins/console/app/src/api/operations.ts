import { useQuery } from '@tanstack/react-query';
import { ApiError, ask, json, send } from '@/api/client';
import { useSession } from '@/api/session';
import { operations as texts } from '@/texts/operations';

/** A fault of the configuration, at its place. */
export interface ReloadProblem {
  readonly file: string;
  /** From 1; 0: unknown. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** `GET /status`, as far as the pages show it. */
export interface Status {
  readonly status: string;
  readonly reasons?: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  readonly directory: {
    readonly standing: string;
    readonly source: string | null;
    readonly age_seconds: number | null;
    readonly max_age_seconds: number | null;
  } | null;
  readonly generation: string;
  readonly uptime_seconds: number;
  readonly active_requests: number;
  readonly buffered_bytes: number;
  readonly retiring_generations: number;
  readonly plugin_breakers: readonly { readonly plugin: string }[];
  readonly loop_blocks: readonly {
    readonly plugin: string;
    readonly hook: string;
    readonly ms: number;
    readonly at: string;
  }[];
  readonly jobs: readonly {
    readonly name: string;
    readonly every_ms: number | null;
    readonly attempts: number;
    readonly failed: number;
    readonly last_run: { readonly at: string; readonly outcome: string; readonly took_ms: number } | null;
    readonly last_error: { readonly at: string; readonly message: string } | null;
  }[];
  readonly config_error: { readonly at: string; readonly problems: readonly string[] } | null;
  readonly restart_needed: string | null;
  readonly workers?: readonly {
    readonly worker: number;
    readonly pid: number;
    readonly generation: string;
    readonly active_requests: number;
    readonly buffered_bytes: number;
    readonly retiring_generations: number;
    readonly uptime_seconds: number;
  }[];
  readonly pipelines: readonly {
    readonly name: string;
    readonly match: {
      readonly routes?: string;
      readonly path?: string;
      readonly methods?: readonly string[];
    };
    readonly plugins: readonly {
      readonly name: string;
      readonly options: Readonly<Record<string, unknown>>;
      readonly isolated?: boolean;
      readonly place: string;
    }[];
  }[];
  readonly reloads: readonly {
    readonly at: string;
    readonly outcome: string;
    readonly reason: string;
    readonly took_ms: number;
    readonly generation: string;
    readonly problems: readonly ReloadProblem[];
  }[];
}

const everyMs = 5000;

/** The gateway's own state, again every five seconds. */
export function useStatus() {
  return useQuery({
    queryKey: ['status'],
    queryFn: ({ signal }) => json<Status>('/status', { signal }).catch(refused),
    refetchInterval: everyMs,
  });
}

/** Whether the caller may read the gateway's own state (`server.operations`); false until the gateway has said so. */
export function useOperationsAccess(): boolean {
  const { caller, visit } = useSession();
  const isOwner = caller?.type === 'owner' && !caller.is_token;
  const { data } = useQuery({
    queryKey: ['operations-access', visit],
    queryFn: async ({ signal }) => {
      const { headers } = await ask('/status', { method: 'OPTIONS', signal });
      return headers.get('allow')?.includes('GET') === true;
    },
    enabled: caller !== null && !isOwner,
    staleTime: Infinity,
  });
  return isOwner || data === true;
}

/** One line of the metrics. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const sampleLine = /^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$/i;
const label = /([a-z_][a-z0-9_]*)="((?:[^"\\]|\\.)*)"/gi;

/** The metrics whose names match, again every five seconds. */
export function useMetrics(wanted: RegExp) {
  return useQuery({
    queryKey: ['metrics', wanted.source],
    queryFn: async ({ signal }): Promise<readonly Sample[]> => {
      const text = await (await send('/metrics', { signal }).catch(refused)).text();
      return text.split('\n').flatMap((line) => {
        const [, name, labels = '', value] = sampleLine.exec(line) ?? [];
        if (name === undefined || !wanted.test(name)) return [];
        const pairs = [...labels.matchAll(label)].map(([, key = '', told = '']) => [key, told] as const);
        return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
      });
    },
    refetchInterval: everyMs,
  });
}

/** A caller that may not see it is told so in words of its own. */
function refused(error: unknown): never {
  if (error instanceof ApiError && error.status === 401)
    throw new ApiError(403, error.code, texts.ownersOnly, '');
  throw error;
}
