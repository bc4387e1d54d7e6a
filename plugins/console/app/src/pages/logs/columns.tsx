import { count, duration, money } from '@/lib/format';
import { shortId } from '@/lib/names';
import type { LogEntry } from '@/pages/logs/use-logs';
import { logs as texts } from '@/texts/logs';
import type { LongColumn } from '@/ui/long-table';
import { Badge, Time, type Tone } from '@/ui/small';

/** The tone of a status: refusals warn, failures are bad. */
export function statusTone(status: number): Tone {
  if (status >= 500 || status === 0) return 'bad';
  if (status >= 400) return 'warn';
  return 'good';
}

const soft = <span className="text-soft">–</span>;

/** The columns of the list: few, so that it stays fast. */
export function logColumns(
  keys: ReadonlyMap<string, string>,
  words: boolean,
): readonly LongColumn<LogEntry>[] {
  const { columns } = texts;
  const firstWords: readonly LongColumn<LogEntry>[] = [
    {
      id: 'words',
      header: columns.words,
      ...{ width: '22%', narrow: '29%' },
      cell: (row) => {
        const { preview } = row.request;
        return preview ? <span title={preview}>{preview}</span> : soft;
      },
    },
  ];
  return [
    {
      id: 'time',
      header: columns.time,
      ...{ width: '13rem', narrow: '49%' },
      cell: (row) => <Time iso={row.created_at} />,
    },
    {
      id: 'status',
      header: columns.status,
      ...{ width: '4.5rem', narrow: '14%' },
      cell: (row) => (
        <Badge tone={row.metrics.is_success ? 'good' : statusTone(Math.max(row.response.status, 400))}>
          {row.response.status}
        </Badge>
      ),
    },
    {
      id: 'model',
      header: columns.model,
      ...{ width: '13%', narrow: '37%' },
      cell: (row) => {
        const { model, mcp_tool: tool, endpoint } = row.metrics;
        return (
          <span title={model || tool || endpoint}>
            {model || (tool ? texts.tool(tool) : endpoint) || soft}
          </span>
        );
      },
    },
    ...(words ? firstWords : []),
    {
      id: 'provider',
      header: columns.provider,
      // The first words of a request stand where its provider does, when they are shown.
      ...{ width: '9%', ...(!words && { narrow: '29%' }) },
      cell: (row) => row.metrics.provider || row.metrics.mcp_server || soft,
    },
    {
      id: 'tokens',
      header: columns.tokens,
      ...{ width: '6rem', narrow: '20%' },
      align: 'right',
      cell: (row) => {
        const { total_tokens: all, prompt_tokens: sent, completion_tokens: got } = row.metrics;
        return all === 0 ? soft : <span title={texts.tokensOf(count(sent), count(got))}>{count(all)}</span>;
      },
    },
    {
      id: 'cost',
      header: columns.cost,
      ...{ width: '7.5rem', narrow: '27%' },
      align: 'right',
      cell: (row) => (row.metrics.pricing === 'priced' ? money(row.metrics.cost) : soft),
    },
    {
      id: 'latency',
      header: columns.latency,
      ...{ width: '6rem', narrow: '24%' },
      align: 'right',
      cell: (row) => duration(row.metrics.latency_ms),
    },
    {
      id: 'cache',
      header: columns.cache,
      width: '6.5rem',
      cell: (row) => {
        const { cache_status: status } = row.metrics;
        if (status === '' || status === 'DISABLED') return soft;
        return (
          <span className={status.endsWith('HIT') ? 'text-good' : 'text-soft'}>{status.toLowerCase()}</span>
        );
      },
    },
    {
      id: 'caller',
      header: columns.caller,
      width: '10%',
      cell: (row) => {
        const { metadata, user_id: user, api_key_id: key } = row.metrics;
        const shown = metadata['_user'] || keys.get(key) || user || key;
        return shown === '' ? soft : <span title={shown}>{shortId(shown)}</span>;
      },
    },
  ];
}
