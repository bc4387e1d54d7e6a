import type { Between, RequestFilter } from '../../core/ports/analytics.ts';
import type { BodyRow, FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { userOf } from './analytics-naive.ts';
import { feedbackOf, latestFeedback, weightedAverage } from './analytics-naive-feedback.ts';

/** What else is known of requests. */
interface NaiveSurroundings {
  readonly feedback?: readonly FeedbackRow[];
  readonly bodies?: readonly BodyRow[];
}

/** Whether a row is meant by a filter, one condition after the other. */
export function naiveFilter(
  filter: RequestFilter,
  { feedback = [], bodies = [] }: NaiveSurroundings = {},
): (row: RequestRow) => boolean {
  const latest = latestFeedback(feedback);
  const texts = new Map(bodies.map((body) => [body.id, [body.request, body.response]]));
  const isOneOf = (values: readonly (string | number)[] | undefined, value: string | number): boolean =>
    values === undefined || values.includes(value);
  const isBetween = (bounds: Between | undefined, value: number): boolean =>
    bounds === undefined || (value >= (bounds.min ?? -Infinity) && value <= (bounds.max ?? Infinity));
  const holdsText = (row: RequestRow, text: string): boolean =>
    (texts.get(row.id) ?? []).some((body) => body.toLowerCase().includes(text.toLowerCase()));
  return (row) => {
    const own = feedbackOf(row, latest);
    const average = weightedAverage(own);
    return (
      isOneOf(filter.aiServices, row.ai_service) &&
      isOneOf(filter.models, row.model) &&
      (filter.serviceModels?.some(
        ({ service, model }) => row.ai_service === service && row.model === model,
      ) ??
        true) &&
      isOneOf(filter.providers, row.provider) &&
      isOneOf(filter.virtualKeys, row.virtual_key) &&
      isOneOf(filter.mcpServers, row.mcp_server) &&
      isOneOf(filter.mcpTools, row.mcp_tool) &&
      isOneOf(filter.configs, row.config) &&
      isOneOf(filter.prompts, row.prompt) &&
      isOneOf(filter.apiKeys, row.api_key_id) &&
      isOneOf(filter.workspaces, row.workspace_id) &&
      isOneOf(filter.users, userOf(row)) &&
      isOneOf(filter.traceIds, row.trace_id) &&
      isOneOf(filter.spanIds, row.span_id) &&
      isOneOf(filter.endpoints, row.endpoint) &&
      isOneOf(filter.cacheStatuses, row.cache_status) &&
      isOneOf(filter.statusCodes, row.status) &&
      (filter.isSuccess === undefined || row.is_success === filter.isSuccess) &&
      Object.entries(filter.metadata ?? {}).every(
        ([key, value]) => Object.hasOwn(row.metadata, key) && row.metadata[key] === value,
      ) &&
      isBetween(filter.promptTokens, row.prompt_tokens) &&
      isBetween(filter.completionTokens, row.completion_tokens) &&
      isBetween(filter.totalTokens, row.total_tokens) &&
      isBetween(filter.cost, Number(row.cost)) &&
      isBetween(filter.latencyMs, row.latency_ms) &&
      (filter.weightedFeedback === undefined ||
        (own.length > 0 &&
          average !== null &&
          isBetween(filter.weightedFeedback, Math.round(average * 1e9) / 1e9))) &&
      (filter.text === undefined || holdsText(row, filter.text))
    );
  };
}
