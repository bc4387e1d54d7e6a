import { useState, type ReactNode } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { MessageSquarePlus, ThumbsDown, ThumbsUp } from 'lucide-react';
import { api, ApiError, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { count, duration, list, money } from '@/lib/format';
import { listText } from '@/lib/filters';
import { useKeyNames, useWorkspaceNames } from '@/lib/names';
import { statusTone } from '@/pages/logs/columns';
import { GiveFeedback, type Opinion } from '@/pages/logs/give-feedback';
import type { LogDetail } from '@/pages/logs/timings';
import { log as texts } from '@/texts/log';
import { IconButton } from '@/ui/button';
import { Card } from '@/ui/page';
import { Badge, Code, Time } from '@/ui/small';
import { useToast } from '@/ui/toast';

/** The facts of a request, beside its conversation. */
export function Facts({ entry }: { readonly entry: LogDetail }) {
  return (
    <div className="grid min-w-0 gap-4">
      <Properties entry={entry} />
      <Cost entry={entry} />
      <Feedback entry={entry} />
    </div>
  );
}

function Rows({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-3 gap-y-1.5 p-4">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-soft">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A value that leads to the requests that share it. */
function Shared({
  name,
  value,
  children,
}: {
  readonly name: string;
  readonly value: string;
  readonly children?: ReactNode;
}) {
  return (
    <Link
      to="/logs"
      search={{ [name]: listText([value]), range: '7d' }}
      className="text-accent hover:underline"
    >
      {children ?? value}
    </Link>
  );
}

function Properties({ entry }: { readonly entry: LogDetail }) {
  const { metrics: m } = entry;
  const { facts } = texts;
  const keys = useKeyNames([m.api_key_id]);
  const workspaces = useWorkspaceNames();
  const user = m.metadata['_user'] ?? m.user_id;
  const named = Object.entries(m.metadata).filter(([name]) => name !== '_user');
  const rows: (readonly [string, ReactNode] | false)[] = [
    [
      facts.status,
      <Badge
        key=""
        tone={m.is_success ? 'good' : statusTone(Math.max(m.status, 400))}
      >{`${m.status} ${m.outcome}`}</Badge>,
    ],
    m.error_code !== '' && [
      facts.error,
      <span key="" className="text-bad">
        {[m.error_code, m.error_source, m.plugin].filter((text) => text !== '').join(' · ')}
      </span>,
    ],
    [facts.time, <Time key="" iso={entry.created_at} />],
    [facts.latency, duration(m.latency_ms)],
    m.model !== '' && [facts.model, <Shared key="" name="ai_model" value={m.model} />],
    m.model_requested !== '' && m.model_requested !== m.model && [facts.asked, m.model_requested],
    m.provider !== '' && [facts.provider, <Shared key="" name="provider" value={m.provider} />],
    [facts.endpoint, m.stream ? facts.streamed(m.endpoint) : m.endpoint],
    m.api_key_id !== '' && [
      facts.key,
      <Shared key="" name="api_key_ids" value={m.api_key_id}>
        {keys.get(m.api_key_id) ?? m.api_key_id}
      </Shared>,
    ],
    user !== '' && [facts.user, <Shared key="" name="user" value={user} />],
    m.workspace_id !== '' && [facts.workspace, workspaces.get(m.workspace_id) ?? m.workspace_id],
    m.config !== '' && [facts.config, `${m.config} ${m.config_version}`],
    m.prompt !== '' && [facts.prompt, `${m.prompt} ${m.prompt_version}`],
    m.cache_status !== '' && [facts.cache, m.cache_status.toLowerCase()],
    m.finish_reason !== '' && [facts.finish, m.finish_reason],
    m.limits.length > 0 && [facts.limits, list(m.limits)],
    m.dropped.length > 0 && [facts.dropped, list(m.dropped)],
    (m.sdk || m.user_agent) !== '' && [facts.client, m.sdk || m.user_agent],
    m.source !== '' && [facts.source, texts.sources[m.source] ?? m.source],
    ...named.map(
      ([name, value]) =>
        [
          name,
          <Link
            key=""
            to="/logs"
            search={{ metadata: JSON.stringify({ [name]: value }), range: '7d' }}
            className="text-accent hover:underline"
          >
            {value}
          </Link>,
        ] as const,
    ),
    [facts.id, <Code key="" text={entry.id} />],
    m.trace_id !== '' && m.trace_id !== entry.id && [facts.trace, <Code key="" text={m.trace_id} />],
  ];
  return (
    <Card title={facts.title}>
      <Rows rows={rows.filter((row) => row !== false)} />
    </Card>
  );
}

function Cost({ entry: { metrics: m, cost_parts: parts } }: { readonly entry: LogDetail }) {
  const { cost } = texts;
  const tokens = (name: string, value: number): readonly [string, ReactNode] | false =>
    value > 0 && [name, count(value)];
  const rows = [
    [cost.prompt, count(m.prompt_tokens)] as const,
    tokens(cost.cached, m.cached_tokens),
    tokens(cost.written, m.cache_write_tokens),
    [cost.completion, count(m.completion_tokens)] as const,
    tokens(cost.reasoning, m.reasoning_tokens),
    tokens(cost.audio, m.input_audio_tokens + m.output_audio_tokens),
    [cost.total, m.usage_estimated ? cost.estimated(count(m.total_tokens)) : count(m.total_tokens)] as const,
    [cost.cost, m.pricing === 'unpriced' ? cost.unpriced : money(m.cost)] as const,
    m.lost_cost > 0 && ([cost.lost, money(m.lost_cost)] as const),
  ];
  return (
    <Card title={cost.title}>
      <Rows rows={rows.filter((row) => row !== false)} />
      {parts !== null && parts.length > 0 && <CostParts parts={parts} />}
      {parts === null && m.cost > 0 && (
        <p className="px-4 pb-4 text-soft">
          {m.price_version === 'reported' ? cost.noPartsReported : cost.noParts}
        </p>
      )}
    </Card>
  );
}

function CostParts({ parts }: { readonly parts: NonNullable<LogDetail['cost_parts']> }) {
  const { cost } = texts;
  return (
    <div className="px-4 pb-4">
      <table aria-label={cost.partsLabel} className="w-full text-right tabular-nums">
        <thead className="text-soft">
          <tr>
            <th className="py-1 text-left font-normal">{cost.part}</th>
            <th className="py-1 pl-3 font-normal">{cost.partTokens}</th>
            <th className="py-1 pl-3 font-normal">{cost.perMillion}</th>
            <th className="py-1 pl-3 font-normal">{cost.cost}</th>
          </tr>
        </thead>
        <tbody>
          {parts.map((part) => (
            <tr key={part.kind}>
              <th scope="row" className="py-1 text-left font-normal">
                {cost.parts[part.kind]}
              </th>
              <td className="py-1 pl-3">{part.kind !== 'request' && count(part.tokens)}</td>
              <td className="py-1 pl-3">
                {part.price_per_million !== null && money(part.price_per_million)}
              </td>
              <td className="py-1 pl-3">{money(part.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Scores of thumbs. */
const good = 5;
const bad = -5;

function Feedback({ entry }: { readonly entry: LogDetail }) {
  const { may } = useSession();
  const say = useToast();
  const queries = useQueryClient();
  const [giving, setGiving] = useState(false);
  const traceId = entry.metrics.trace_id || entry.id;
  const key = ['feedback-of', traceId];
  const found = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/analytics/graphs/feedbacks/scores', {
          params: {
            query: {
              trace_id: JSON.stringify([traceId]),
              time_of_generation_min: new Date(Date.parse(entry.created_at) - 1000).toISOString(),
            },
          },
          signal,
        }),
      ),
    enabled: may('analytics.view'),
    retry: false,
  });
  const give = useMutation({
    mutationFn: (opinion: Opinion) =>
      dataOf(api.POST('/feedback', { body: { trace_id: traceId, ...opinion } })),
    onSuccess: () => {
      say({ text: texts.feedback.thanks, tone: 'good' });
      setGiving(false);
      // The store has it a moment later.
      setTimeout(() => void queries.invalidateQueries({ queryKey: key }), 1500);
    },
    onError: (error) => say({ text: error instanceof ApiError ? error.message : String(error), tone: 'bad' }),
  });
  const scores = found.data?.data_points ?? [];
  return (
    <Card
      title={texts.feedback.title}
      actions={
        may('feedbacks.write', 'completions.write') && (
          <>
            <IconButton
              label={texts.feedback.good}
              disabled={give.isPending}
              onClick={() => give.mutate({ value: good })}
            >
              <ThumbsUp className="size-4" />
            </IconButton>
            <IconButton
              label={texts.feedback.bad}
              disabled={give.isPending}
              onClick={() => give.mutate({ value: bad })}
            >
              <ThumbsDown className="size-4" />
            </IconButton>
            <IconButton label={texts.feedback.give} onClick={() => setGiving(true)}>
              <MessageSquarePlus className="size-4" />
            </IconButton>
          </>
        )
      }
    >
      <ul className="flex flex-wrap gap-2 p-4">
        {scores.length === 0 && <li className="text-soft">{texts.feedback.none}</li>}
        {scores.map(({ score, total }) => (
          <li key={score}>
            <Badge tone={score > 0 ? 'good' : score < 0 ? 'bad' : 'neutral'}>
              {texts.feedback.score(score > 0 ? `+${score}` : String(score), count(total))}
            </Badge>
          </li>
        ))}
      </ul>
      {giving && (
        <GiveFeedback
          busy={give.isPending}
          onClose={() => setGiving(false)}
          onGive={(opinion) => give.mutate(opinion)}
        />
      )}
    </Card>
  );
}
