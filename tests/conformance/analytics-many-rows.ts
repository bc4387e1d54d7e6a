import type { TimeWindow } from '../../core/ports/analytics.ts';
import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { chanceOf } from '../../scripts/seed-demo/chance.ts';
import { dayStart, hostileTexts, requestRow, storedTime } from './analytics-rows.ts';

/** Where random rows lie. */
interface Place {
  readonly organisationId: string;
  readonly window: TimeWindow;
  readonly seed: number;
}

/**
 * Rows that differ in everything that can be measured, split or filtered; the same for the same seed but for their ids.
 */
export function manyRows(count: number, { organisationId, window, seed }: Place): RequestRow[] {
  const random = chanceOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const one = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  const ofMcp = mcpMembers(seed);
  return Array.from({ length: count }, () => {
    const outcome = one(['completed', 'completed', 'completed', 'refused', 'failed', 'cancelled'] as const);
    const status = outcome === 'completed' ? one([200, 201, 404, 500]) : one([200, 401, 429, 446, 499, 502]);
    const [prompt_tokens, completion_tokens] = [below(5000), below(900)];
    const user = one(['', '', 'end user', "end'user"]);
    return requestRow({
      created_at: storedTime(window.from + below(window.to - window.from)),
      organisation_id: organisationId,
      workspace_id: one(['alpha', 'beta', '']),
      outcome,
      status,
      is_success: outcome === 'completed' && status < 300,
      endpoint: one(['chat.completions', 'embeddings']),
      ai_service: one(['openai', 'anthropic', 'mock']),
      provider: one(['openai', '@team/openai', 'größe', "it's"]),
      model: one([...hostileTexts.slice(0, 4), 'gpt', 'claude', '']),
      api_key_id: one(['k1', 'k2', 'k3']),
      user_id: one(['ann', 'bob', '']),
      virtual_key: one(['', 'v1', 'v\\2']),
      config: `config-${below(5)}`,
      prompt: one(['', 'welcome', 'p\\2']),
      cache_status: one(['', 'MISS', 'HIT', 'SEMANTIC HIT', 'DISABLED']),
      latency_ms: below(10_000_000) / 1000,
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      cost: `${below(3)}.${String(below(1_000_000)).padStart(6, '0')}${String(below(1_000_000)).padStart(6, '0')}`,
      retries: one([0, 0, 1, 2, -1]),
      ...one([
        { option: '', tries: '' },
        served(['a']),
        served(['a', 'b']),
        served(['a', 'a']),
        served(['b', 'a'], [5, 1]),
      ]),
      metadata: {
        team: one(['red', 'blue', 'größe', '']),
        ...(user !== '' && { _user: user }),
        ...(below(2) === 0 && { "it's": one(hostileTexts.slice(0, 6)) }),
      },
      trace_id: one(['', ...Array.from({ length: 20 }, (_, index) => `trace-${index}`)]),
      span_id: `span-${below(10)}`,
      ...ofMcp(),
    });
  });
}

/** What one in three rows has of a request to an MCP server, from a chance of its own. */
function mcpMembers(seed: number): () => Partial<RequestRow> {
  const random = chanceOf(seed + 1000);
  const one = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  return () => {
    if (random() > 1 / 3) return {};
    const endpoint = one(['mcp.tools.call', 'mcp.tools.call', 'mcp.tools.list', 'mcp.listen']);
    const mcp_tool =
      endpoint === 'mcp.tools.call' ? one(['search', 'größe', ...hostileTexts.slice(0, 3)]) : '';
    return { endpoint, mcp_server: one(['tickets', 'files']), mcp_tool };
  };
}

/** The attempts of a plan, in the order of their end; the last one served. */
function served(
  options: readonly string[],
  starts?: readonly number[],
): Pick<RequestRow, 'option' | 'tries'> {
  const tries = options.map((option, index) => ({
    option,
    provider: 'p',
    model: 'm',
    status: 200,
    error: '',
    start_ms: starts?.[index] ?? index,
    end_ms: 9,
    lost: index < options.length - 1,
  }));
  return { option: options.at(-1) as string, tries: JSON.stringify(tries) };
}

/** Feedback on traces of such rows: several on one, some revised, some without weight; about some there is none. */
export function manyFeedback(count: number, { organisationId, window, seed }: Place): FeedbackRow[] {
  const random = chanceOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  return Array.from({ length: count }).flatMap((_, index) => {
    const feedback_id = uuid(seed, index);
    const trace_id = `trace-${below(14)}`;
    const at = window.from + below(window.to - window.from);
    return Array.from({ length: 1 + below(3) }, (_one, revision): FeedbackRow => ({
      id: uuid(seed, 1_000_000 + index * 10 + revision),
      feedback_id,
      revision: revision + 1,
      created_at: storedTime(at + revision * 3_600_000),
      organisation_id: organisationId,
      workspace_id: 'alpha',
      api_key_id: 'k1',
      user_id: 'ann',
      trace_id,
      value: below(21) - 10,
      weight: below(5) / 4,
      metadata: '{}',
    }));
  });
}

function uuid(seed: number, index: number): string {
  return `${String(seed).padStart(8, '0')}-0000-4000-8000-${String(index).padStart(12, '0')}`;
}

/** Days around that of other tests. */
export const days = (from: number, to: number): TimeWindow => ({
  from: dayStart + from * 86_400_000,
  to: dayStart + to * 86_400_000,
});
