/**
 * Logs and feedback of two organisations that share every name: of workspaces, users, keys, traces and models. For each
 * thing that somebody may see there is a further organisation, its mirror, that has these rows and no others.
 */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { bodyRow, dayStart, ndjson, requestRow, storedTime } from '../conformance/analytics-rows.ts';
import { isAllowed, type View } from './visibility-model.ts';

export const workspaces = ['w0', 'w1', 'w2'] as const;
/** It was archived, in both organisations. */
export const archived = 'w2';
export const users = ['', 'ann', 'bob'] as const;
export const keys = ['k0', 'k1', 'k2'] as const;

/** Values that rows have, and filters ask for. */
export const pools = {
  ai_service: ['openai', 'anthropic'],
  model: ['gpt', 'claude', 'with, comma'],
  provider: ['openai', '@team/openai'],
  virtual_key: ['', 'vk'],
  config: ['', 'pc-1'],
  prompt: ['', 'welcome'],
  cache_status: ['', 'MISS', 'HIT', 'SEMANTIC HIT'],
  status: [200, 200, 200, 404, 429, 502],
  endpoint: ['chat.completions', 'embeddings', 'mcp.tools.call'],
  mcp_server: ['', 'tickets', 'wiki'],
  mcp_tool: ['', 'find', 'close'],
  team: ['', 'search', 'shop'],
  trace: ['', 't0', 't1', 't2', 't3', 't4', 't5'],
  span: ['s0', 's1', 's2', 's3'],
  word: ['refund', 'invoice', 'parcel'],
} as const;

const rowsOfOrganisation = 70;
const feedbackOfOrganisation = 30;
/** Rows lie within this long after `dayStart`, each at a time of its own. */
export const spanMs = 8 * 3_600_000;

const origin = {
  workspace_id: fc.constantFrom(...workspaces),
  user_id: fc.constantFrom(...users),
  api_key_id: fc.constantFrom(...keys),
};
const row = fc.record({
  ...origin,
  ai_service: fc.constantFrom(...pools.ai_service),
  model: fc.constantFrom(...pools.model),
  provider: fc.constantFrom(...pools.provider),
  virtual_key: fc.constantFrom(...pools.virtual_key),
  config: fc.constantFrom(...pools.config),
  prompt: fc.constantFrom(...pools.prompt),
  cache_status: fc.constantFrom(...pools.cache_status),
  status: fc.constantFrom(...pools.status),
  endpoint: fc.constantFrom(...pools.endpoint),
  mcp_server: fc.constantFrom(...pools.mcp_server),
  mcp_tool: fc.constantFrom(...pools.mcp_tool),
  trace_id: fc.constantFrom(...pools.trace),
  span_id: fc.constantFrom(...pools.span),
  parent_span_id: fc.constantFrom(...pools.span),
  retries: fc.constantFrom(0, 0, 1, 2),
  latency_ms: fc.integer({ min: 1, max: 5000 }),
  prompt_tokens: fc.integer({ min: 0, max: 50 }),
  completion_tokens: fc.integer({ min: 0, max: 50 }),
  cents: fc.integer({ min: 0, max: 300 }),
  endUser: fc.constantFrom('', 'ann', 'zoe'),
  team: fc.constantFrom(...pools.team),
  word: fc.constantFrom(...pools.word),
  fellBack: fc.boolean(),
});
const opinion = fc.record({
  ...origin,
  trace_id: fc.constantFrom('t0', 't1', 't2', 't3', 't4', 't5'),
  value: fc.integer({ min: -10, max: 10 }),
  weight: fc.constantFrom(0, 0.25, 0.5, 1),
  at: fc.integer({ min: 0, max: spanMs }),
  /** The user who changed it later, who need not be the same. */
  changedBy: fc.option(
    fc.record({
      user_id: origin.user_id,
      api_key_id: origin.api_key_id,
      value: fc.integer({ min: -10, max: 10 }),
    }),
    { freq: 3 },
  ),
});

type Drawn<A> = A extends fc.Arbitrary<infer T> ? T : never;

/** The planted records. */
export interface PlantedLogs {
  readonly organisations: readonly string[];
  /** Ids and traces that single logs are asked for by. */
  readonly ids: readonly string[];
  mirrorOf(view: View): Mirror;
}

/** The organisation that holds exactly what a view allows. */
interface Mirror {
  readonly organisation: string;
  /** The question, with the ids of the mirror; and its answer, with those of the original. */
  mirrored(text: string): string;
  unmirrored(text: string): string;
}

/** Rows made of the seed, stored once per organisation and once in every mirror that may show them. */
export async function plantLogs(analytics: Analytics, seed: number): Promise<PlantedLogs> {
  const organisations = [randomUUID(), randomUUID()];
  const requests: (RequestRow & { readonly word: string })[] = [];
  const feedback: FeedbackRow[] = [];
  for (const [place, organisation] of organisations.entries()) {
    const rows = fc.sample(row, { numRuns: rowsOfOrganisation, seed: seed + place });
    requests.push(...rows.map((one, index) => requestOf(one, organisation, index)));
    const opinions = fc.sample(opinion, { numRuns: feedbackOfOrganisation, seed: seed - place });
    feedback.push(...opinions.flatMap((one) => feedbackOf(one, organisation)));
  }
  const mirrors = new Map(
    organisations
      .flatMap(viewsOf)
      .map((view, index) => [nameOf(view), { view, index, organisation: randomUUID() }]),
  );
  const all = { requests: [...requests], feedback: [...feedback] };
  for (const { view, index, organisation } of mirrors.values()) {
    const to = { organisation_id: organisation };
    const id = (original: string) => mirroredId(original, index);
    for (const one of requests)
      if (isAllowed(view, one)) all.requests.push({ ...one, ...to, id: id(one.id) });
    for (const one of feedback)
      if (isAllowed(view, one))
        all.feedback.push({ ...one, ...to, id: randomUUID(), feedback_id: id(one.feedback_id) });
  }
  await analytics.insert(
    'requests',
    ndjson(all.requests.map((one) => ({ ...one, word: undefined }))),
    randomUUID(),
  );
  await analytics.insert(
    'bodies',
    ndjson(all.requests.map((one) => bodyRow(one, { request: `{"say":"${one.word} please"}` }))),
    randomUUID(),
  );
  await analytics.insert('feedback', ndjson(all.feedback), randomUUID());
  return {
    organisations,
    ids: requests.map(({ id }) => id),
    mirrorOf(view) {
      const mirror = mirrors.get(nameOf(view));
      if (mirror === undefined) throw new Error(`No mirror of ${nameOf(view)}.`);
      return {
        organisation: mirror.organisation,
        mirrored: (text) => mirroredId(text, mirror.index),
        unmirrored: (text) =>
          text
            .replaceAll(mirror.organisation, view.organisation)
            .replace(/bbbb[0-9a-f]{4}(-0000-4000-8000-[0-9a-f]{12})/g, 'aaaa0000$1'),
      };
    },
  };
}

const oneAttempt = { provider: 'openai', model: 'gpt', error: '', lost: true };

function requestOf(one: Drawn<typeof row>, organisation: string, index: number) {
  const { cents, endUser, team, word, fellBack, ...columns } = one;
  const apart = Math.floor(spanMs / rowsOfOrganisation);
  const option = fellBack ? 'config.targets[1]' : 'config.targets[0]';
  return {
    ...requestRow({
      ...columns,
      id: originalId(),
      created_at: storedTime(dayStart + index * apart),
      organisation_id: organisation,
      outcome: columns.status === 502 ? 'failed' : 'completed',
      is_success: columns.status < 300,
      total_tokens: columns.prompt_tokens + columns.completion_tokens,
      cost: `${(cents / 100).toFixed(12)}`,
      metadata: { ...(endUser !== '' && { _user: endUser }), ...(team !== '' && { team }) },
      option,
      tries: JSON.stringify([
        { ...oneAttempt, option: 'config.targets[0]', status: 500, start_ms: 0, end_ms: 1 },
        { ...oneAttempt, option, status: columns.status, start_ms: 1, end_ms: 2, lost: false },
      ]),
      decision: '',
    }),
    word,
  };
}

function feedbackOf(one: Drawn<typeof opinion>, organisation: string): FeedbackRow[] {
  const { changedBy, at, ...said } = one;
  const feedback_id = originalId();
  const first = {
    ...said,
    id: randomUUID(),
    feedback_id,
    revision: 1,
    organisation_id: organisation,
    created_at: storedTime(dayStart + at),
    metadata: '{}',
  };
  if (changedBy === null) return [first];
  const second = { ...first, ...changedBy, id: randomUUID(), revision: 2 };
  return [first, { ...second, created_at: storedTime(dayStart + at + 1000) }];
}

let count = 0;

/** An id that is recognised in an answer, in the original and in a mirror. */
function originalId(): string {
  return `aaaa0000-0000-4000-8000-${String(count++).padStart(12, '0')}`;
}

function mirroredId(original: string, index: number): string {
  return original.replace('aaaa0000', `bbbb${String(index).padStart(4, '0')}`);
}

/** Everything that the rules can allow somebody to see. */
function viewsOf(organisation: string): View[] {
  return [
    { organisation },
    ...workspaces.flatMap((workspace): View[] => [
      { organisation, workspace },
      ...users.filter((user) => user !== '').map((user) => ({ organisation, workspace, user })),
      ...keys.map((key) => ({ organisation, workspace, key })),
    ]),
  ];
}

function nameOf({ organisation, workspace, user, key }: View): string {
  return JSON.stringify([organisation, workspace ?? null, user ?? null, key ?? null]);
}
