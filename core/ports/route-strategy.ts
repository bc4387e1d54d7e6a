import { Type, type Static } from 'typebox';
import type { JsonObject } from '../pipeline/context.ts';

const strict = { additionalProperties: false };

/** A list of HTTP statuses, for what is tried again, what goes on, what counts as a failure. */
export const statusCodes = (description: string) =>
  Type.Optional(
    Type.Array(Type.Integer({ minimum: 100, maximum: 599, 'x-expected': 'an HTTP status from 100 to 599' }), {
      maxItems: 100,
      description,
    }),
  );

/** An object whose members are data, not settings: taken as it is. */
export const anyObject = (description: string) =>
  Type.Unsafe<JsonObject>(Type.Object({}, { additionalProperties: true, description }));

/** When a target is left alone for a while; `BreakerSettings` says what it means. */
export const BreakerSchema = Type.Object(
  {
    failure_threshold: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: 'Failures within a minute after which the target is left alone.',
    }),
    failure_threshold_percentage: Type.Optional(
      Type.Number({
        minimum: 1,
        maximum: 100,
        description: 'Share of failures within a minute, in percent, that has the same effect.',
      }),
    ),
    minimum_requests: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 10,
        description: 'Requests within the minute before the share counts.',
      }),
    ),
    cooldown_interval: Type.Integer({
      minimum: 30_000,
      maximum: 86_400_000,
      description: 'Milliseconds until one request may try again.',
    }),
    failure_status_codes: statusCodes(
      'What counts as a failure. Default: every status of 500 and above, no answer at all, and none in time (408).',
    ),
  },
  { ...strict, description: 'Circuit breaker of this target, or of every target below this one.' },
);

const fieldPaths = (description: string) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { minItems: 1, maxItems: 16, description }),
  );

const ConditionSchema = Type.Object(
  {
    query: anyObject('What the request must be like: { "metadata.plan": { "$eq": "paid" } }.'),
    then: Type.String({ minLength: 1, description: 'Name of the target for requests that are like this.' }),
  },
  strict,
);

const StickySchema = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({ default: true, description: 'Whether equal requests stay with their target.' }),
    ),
    hash_fields: fieldPaths('Fields that are compared: [metadata.user].'),
    ttl: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 2_592_000,
        default: 3600,
        description: 'Seconds that an assignment outlives its last use.',
      }),
    ),
  },
  { ...strict, description: 'loadbalance: requests with equal fields go to the same target.' },
);

/** How one of the targets is chosen. */
export const StrategySchema = Type.Object(
  {
    mode: Type.Union(
      [
        Type.Literal('single'),
        Type.Literal('loadbalance'),
        Type.Literal('fallback'),
        Type.Literal('conditional'),
        Type.Literal('least-latency'),
        Type.Literal('least-cost'),
        Type.Literal('round-robin'),
        Type.Literal('canary'),
      ],
      { description: 'How one of the targets is chosen.' },
    ),
    on_status_codes: statusCodes(
      'fallback: statuses that go on to the next target. Default: every status but 2xx.',
    ),
    conditions: Type.Optional(
      Type.Array(ConditionSchema, {
        maxItems: 256,
        description: 'conditional: the first condition that a request meets decides.',
      }),
    ),
    default: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'conditional: name of the target for requests that meet no condition.',
      }),
    ),
    sticky: Type.Optional(StickySchema),
    percentage: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 100,
        description: 'canary: share of the requests, in percent, for the second target.',
      }),
    ),
    hash_fields: fieldPaths(
      'canary: fields that decide; equal ones always go the same way. Default: [trace_id].',
    ),
    cb_config: Type.Optional(BreakerSchema),
  },
  { ...strict, description: 'How one of the targets is chosen.' },
);

/** A strategy as written. */
export type StrategyInput = Static<typeof StrategySchema>;
/** A circuit breaker as written. */
export type BreakerInput = Static<typeof BreakerSchema>;
