import type { ToolCall } from '@/pages/playground/messages';

/** What answers in one column, and how. */
export interface Column {
  readonly kind: 'model' | 'config' | 'prompt';
  readonly provider: string;
  readonly model: string;
  readonly config: string;
  readonly prompt: string;
  /** JSON. */
  readonly variables: string;
  readonly temperature: string;
  readonly maxTokens: string;
  /** JSON: what the body has beside the fields of the column. */
  readonly parameters: string;
  readonly stream: boolean;
  /** Its log entry tells why each target was taken. */
  readonly explain: boolean;
}

export const firstColumn: Column = {
  ...{ kind: 'model', provider: '', model: '', config: '', prompt: '' },
  ...{ variables: '{}', temperature: '', maxTokens: '', parameters: '', stream: true, explain: false },
};

/** What came of a run. Times are milliseconds. */
export interface Run {
  /** `cut`: the page was left before it had ended, or its end was too long to be kept. */
  readonly state: 'waiting' | 'running' | 'done' | 'stopped' | 'failed' | 'cut';
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly status: number;
  readonly fault: string;
  readonly firstByteMs: number | undefined;
  readonly totalMs: number | undefined;
  readonly tokens: readonly [sent: number, got: number] | undefined;
  readonly model: string;
  readonly provider: string;
  readonly traceId: string;
}

export const emptyRun: Run = {
  ...{ state: 'waiting', text: '', calls: [], status: 0, fault: '' },
  ...{
    firstByteMs: undefined,
    totalMs: undefined,
    tokens: undefined,
    model: '',
    provider: '',
    traceId: '',
  },
};
