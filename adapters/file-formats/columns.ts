import type { LogRecord } from '../../core/ports/analytics.ts';
import type { ExportField } from '../../core/ports/export-fields.ts';

/** A body as it was logged: whether it is to be read as text, or as bytes in base64. */
export interface BodyCell {
  readonly text: string;
  readonly isText: boolean;
}

/** One column of an export: what its values are, and where they come from. */
export type Column =
  | { readonly kind: 'text' | 'time' | 'decimal' | 'metadata'; of(record: LogRecord): string }
  | { readonly kind: 'integer' | 'number'; of(record: LogRecord): number }
  | { readonly kind: 'flag'; of(record: LogRecord): boolean }
  | { readonly kind: 'body'; of(record: LogRecord): BodyCell | undefined };

/** Digits behind the point of a cost in US dollars, as the store keeps it. */
export const costDigits = 12;

/** Every column by its name. */
export const columns: { readonly [F in ExportField]: Column } = {
  id: { kind: 'text', of: ({ request }) => request.id },
  trace_id: { kind: 'text', of: ({ request }) => request.trace_id },
  created_at: { kind: 'time', of: ({ request }) => `${request.created_at.replace(' ', 'T')}Z` },
  request: { kind: 'body', of: ({ body }) => body && bodyCell(body.request, body.log_format) },
  response: { kind: 'body', of: ({ body }) => body && bodyCell(body.response, body.log_format) },
  is_success: { kind: 'flag', of: ({ request }) => request.is_success },
  ai_org: { kind: 'text', of: ({ request }) => request.ai_service },
  ai_model: { kind: 'text', of: ({ request }) => request.model },
  req_units: { kind: 'integer', of: ({ request }) => request.prompt_tokens },
  res_units: { kind: 'integer', of: ({ request }) => request.completion_tokens },
  total_units: { kind: 'integer', of: ({ request }) => request.total_tokens },
  request_url: { kind: 'text', of: ({ request }) => request.path },
  cost: { kind: 'decimal', of: ({ request }) => shortest(request.cost) },
  cost_currency: { kind: 'text', of: () => 'USD' },
  response_time: { kind: 'number', of: ({ request }) => request.latency_ms },
  response_status_code: { kind: 'integer', of: ({ request }) => request.status },
  // What the row knows of it: a body that was passed through, or one that the gateway understood.
  mode: { kind: 'text', of: ({ request }) => (request.endpoint === 'proxy' ? 'proxy' : 'gateway') },
  config: { kind: 'text', of: ({ request }) => request.config },
  prompt_slug: { kind: 'text', of: ({ request }) => request.prompt },
  metadata: { kind: 'metadata', of: ({ request }) => JSON.stringify(request.metadata) },
};

function bodyCell(text: string, format: string): BodyCell | undefined {
  return text === '' ? undefined : { text, isText: format !== 'base64' };
}

/** A decimal number without the zeros at its end that say nothing: `0.001234000000` is `0.001234`. */
export function shortest(decimal: string): string {
  return decimal.includes('.') ? decimal.replace(/\.?0+$/, '') : decimal;
}
