import { count, duration, money } from '@/lib/format';
import { shortId } from '@/lib/names';
import type { LogEntry } from '@/pages/logs/use-logs';
import { logs as texts } from '@/texts/logs';
import type { Columns } from '@/ui/data-table';
import { Badge, Time, type Tone } from '@/ui/small';

/** The tone of a status: refusals warn, failures are bad. */
export function statusTone(status: number): Tone {
  if (status >= 500 || status === 0) return 'bad';
  if (status >= 400) return 'warn';
  return 'good';
}

const soft = <span className="text-soft">–</span>;

/** The columns of the list: few, so that it stays fast. */
export function logColumns(keys: ReadonlyMap<string, string>, words: boolean): Columns<LogEntry> {
  const { columns } = texts;
  const firstWords: Columns<LogEntry> = [
    {
      ...{ id: 'words', header: columns.words, meta: { width: '22%' } },
      cell: ({ row }) => {
        const { preview } = row.original.request;
        return preview ? <span title={preview}>{preview}</span> : soft;
      },
    },
  ];
  return [
    {
      ...{ id: 'time', header: columns.time, meta: { width: '10.5rem' } },
      cell: ({ row }) => <Time iso={row.original.created_at} />,
    },
    {
      ...{ id: 'status', header: columns.status, meta: { width: '4.5rem' } },
      cell: ({ row: { original } }) => (
        <Badge
          tone={original.metrics.is_success ? 'good' : statusTone(Math.max(original.response.status, 400))}
        >
          {original.response.status}
        </Badge>
      ),
    },
    {
      ...{ id: 'model', header: columns.model, meta: { width: '13%' } },
      cell: ({ row: { original } }) => {
        const { model, mcp_tool: tool, endpoint } = original.metrics;
        return (
          <span title={model || tool || endpoint}>
            {model || (tool ? `${tool} (${texts.tool})` : endpoint) || soft}
          </span>
        );
      },
    },
    ...(words ? firstWords : []),
    {
      ...{ id: 'provider', header: columns.provider, meta: { width: '9%' } },
      cell: ({ row: { original } }) => original.metrics.provider || original.metrics.mcp_server || soft,
    },
    {
      ...{ id: 'tokens', header: columns.tokens, meta: { width: '6rem', align: 'right' } },
      cell: ({ row: { original } }) => {
        const { total_tokens: all, prompt_tokens: sent, completion_tokens: got } = original.metrics;
        return all === 0 ? soft : <span title={texts.tokensOf(count(sent), count(got))}>{count(all)}</span>;
      },
    },
    {
      ...{ id: 'cost', header: columns.cost, meta: { width: '6rem', align: 'right' } },
      cell: ({ row: { original } }) =>
        original.metrics.pricing === 'priced' ? money(original.metrics.cost) : soft,
    },
    {
      ...{ id: 'latency', header: columns.latency, meta: { width: '6rem', align: 'right' } },
      cell: ({ row: { original } }) => duration(original.metrics.latency_ms),
    },
    {
      ...{ id: 'cache', header: columns.cache, meta: { width: '6.5rem' } },
      cell: ({ row: { original } }) => {
        const { cache_status: status } = original.metrics;
        if (status === '' || status === 'DISABLED') return soft;
        return (
          <span className={status.endsWith('HIT') ? 'text-good' : 'text-soft'}>{status.toLowerCase()}</span>
        );
      },
    },
    {
      ...{ id: 'caller', header: columns.caller, meta: { width: '10%' } },
      cell: ({ row: { original } }) => {
        const { metadata, user_id: user, api_key_id: key } = original.metrics;
        const shown = metadata['_user'] || keys.get(key) || user || key;
        return shown === '' ? soft : <span title={shown}>{shortId(shown)}</span>;
      },
    },
  ];
}
