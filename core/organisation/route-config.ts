import { type Static, type TObject, Type } from 'typebox';
import { providerAliasProperties, providerFieldProperties } from '../providers/provider-fields.ts';
import type { JsonObject } from '../base/json.ts';
import { GuardrailList } from './guardrails.ts';

const strict = { additionalProperties: false };

/** List of HTTP statuses, for retries, fallbacks and failures. */
const statusCodes = (description: string) =>
  Type.Optional(
    Type.Array(Type.Integer({ minimum: 100, maximum: 599, 'x-expected': 'an HTTP status from 100 to 599' }), {
      maxItems: 100,
      description,
    }),
  );

/** An object whose members are data, not settings: not validated. */
const anyObject = (description: string) =>
  Type.Unsafe<JsonObject>(Type.Object({}, { additionalProperties: true, description }));

/** Circuit breaker of a target; `BreakerSettings` explains the fields. */
const BreakerSchema = Type.Object(
  {
    failure_threshold: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: 'Failures within a minute that open the breaker.',
    }),
    failure_threshold_percentage: Type.Optional(
      Type.Number({
        minimum: 1,
        maximum: 100,
        description: 'Share of failures within a minute, in percent, that opens the breaker.',
      }),
    ),
    minimum_requests: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 10,
        description: 'Fewest requests within the minute for the share to count.',
      }),
    ),
    cooldown_interval: Type.Integer({
      minimum: 30_000,
      maximum: 86_400_000,
      description: 'Milliseconds until the open breaker lets one trial request through.',
    }),
    failure_status_codes: statusCodes(
      'Statuses that count as failures. Default: every status of 500 and above, no answer, and a timeout (408).',
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
    query: anyObject('Condition on the request: { "metadata.plan": { "$eq": "paid" } }.'),
    then: Type.String({
      minLength: 1,
      description: 'Name of the target for requests that meet the condition.',
    }),
  },
  strict,
);

const StickySchema = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'Whether requests with equal fields stay with one target.',
      }),
    ),
    hash_fields: fieldPaths('Fields that are compared: [metadata.user].'),
    ttl: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 2_592_000,
        default: 3600,
        description: 'Seconds after its last use until an assignment expires.',
      }),
    ),
  },
  { ...strict, description: 'loadbalance: requests with equal fields go to the same target.' },
);

/** Choice among targets. */
const StrategySchema = Type.Object(
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
      { description: 'Strategy that chooses among the targets.' },
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
  { ...strict, description: 'Strategy that chooses among the targets.' },
);

/** A circuit breaker as written. */
export type BreakerInput = Static<typeof BreakerSchema>;

/** One day: upper bound of every wait. */
const maxTimeoutMs = 86_400_000;

const timeout = (description: string) =>
  Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: maxTimeoutMs,
      description: `${description} In milliseconds; 0: the options of the provider plugin apply.`,
    }),
  );

const RetrySchema = Type.Object(
  {
    attempts: Type.Integer({
      minimum: 0,
      description: 'Attempts after the first one. A value above 5 counts as 5.',
    }),
    on_status_codes: statusCodes(
      'Statuses after which the same target is tried again. Default: 429, 500, 502, 503, 504 and 529.',
    ),
    use_retry_after_headers: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Wait for the time that an answer with 429 or 503 requests. `use_retry_after_header` means the same.',
      }),
    ),
  },
  { ...strict, description: 'Retries of the same target.' },
);

const CacheModeSchema = Type.Union([Type.Literal('simple'), Type.Literal('semantic'), Type.Literal('off')]);

const CacheSchema = Type.Union(
  [
    CacheModeSchema,
    Type.Object(
      {
        mode: CacheModeSchema,
        max_age: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 31_536_000,
            description:
              'Seconds for which a cached answer is used. Default: the option of the cache plugin.',
          }),
        ),
        threshold: Type.Optional(
          Type.Number({
            minimum: 0,
            maximum: 1,
            description:
              'semantic: least similarity to an answered question. Default: the option of the plugin.',
          }),
        ),
      },
      strict,
    ),
  ],
  {
    'x-expected': 'an object with the key "mode", or one of "simple", "semantic" and "off"',
    description: 'Caching of the answers; replaces the options of the cache plugin.',
  },
);

const HedgeSchema = Type.Object(
  {
    after_ms: Type.Integer({
      minimum: 1,
      maximum: maxTimeoutMs,
      description: 'Milliseconds without a byte of the answer until a parallel attempt starts.',
    }),
    max: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3,
        default: 1,
        description: 'Most parallel attempts besides the first one.',
      }),
    ),
  },
  { ...strict, description: 'Parallel attempts when the first is slow; the first good answer wins.' },
);

const DeploymentSchema = Type.Object(
  {
    deployment_id: Type.String({ minLength: 1, description: 'Name of the deployment.' }),
    alias: Type.String({ minLength: 1, description: 'Model that requests name for it.' }),
    api_version: Type.String({ minLength: 1, description: 'The same as azure_api_version.' }),
    is_default: Type.Optional(Type.Boolean({ description: 'Use this deployment by default.' })),
  },
  strict,
);

const name = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 255, description }));

const notServed = (what: string) => `${what}. Not served yet: a config with it is refused.`;

const ownProperties = {
  name: name('Name of the target, for conditions and logs.'),
  strategy: Type.Optional(StrategySchema),
  weight: Type.Optional(
    Type.Number({
      minimum: 0,
      default: 1,
      description: 'Share of the requests among the targets of a loadbalance; 0 excludes this target.',
    }),
  ),
  config: name('Uses the config of this name as this target. Only `name` and `weight` may stand beside it.'),
  provider: name('Provider: a built-in name, or `@name` of one under `providers`.'),
  virtual_key: name('A provider under `providers`, with the credential held there. Wins over `provider`.'),
  api_key: Type.Optional(
    Type.String({ minLength: 1, maxLength: 16_384, description: "The provider's credential." }),
  ),
  custom_host: Type.Optional(
    Type.String({
      maxLength: 2048,
      pattern: '^https?://[^\\s]+$',
      'x-expected': 'an address that begins with https:// or http://',
      description: 'Address that replaces that of the provider, with its version path.',
    }),
  ),
  passthrough: Type.Optional(
    Type.Boolean({
      description: 'The request itself names provider and credential, in headers or in its model.',
    }),
  ),
  forward_headers: Type.Optional(
    Type.Array(
      Type.String({
        pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$",
        'x-expected': 'the name of a header',
      }),
      { maxItems: 100, description: 'Headers of the client that are always forwarded to the provider.' },
    ),
  ),
  default_params: Type.Optional(anyObject("Members that are added to the request's body where absent.")),
  override_params: Type.Optional(anyObject("Members that are set in the request's body in any case.")),
  model_prefix: Type.Optional(
    Type.Object(
      {
        remove: Type.Optional(
          Type.String({
            maxLength: 255,
            default: '',
            description: 'Beginning to remove; a model without it stays unchanged. Default: none.',
          }),
        ),
        add: Type.Optional(
          Type.String({ maxLength: 255, default: '', description: 'Text to put there. Default: none.' }),
        ),
      },
      {
        ...strict,
        description:
          'Replaces the beginning of the request\'s model: { remove: "openai/" }. `model` of `override_params` wins.',
      },
    ),
  ),
  drop_params: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 512 }), {
      maxItems: 64,
      description: "Paths that are removed from the request's body: `user`, `tools[*].strict`.",
    }),
  ),
  request_timeout: timeout('The whole attempt, streams to their last byte.'),
  first_token_timeout: timeout('From sending until the first token.'),
  idle_timeout: timeout('Between two pieces of an answer.'),
  retry: Type.Optional(RetrySchema),
  cache: Type.Optional(CacheSchema),
  hedge: Type.Optional(HedgeSchema),
  cb_config: Type.Optional(BreakerSchema),
  on_drop: Type.Optional(
    Type.Union([Type.Literal('report'), Type.Literal('refuse')], {
      description:
        'When the wire of the host cannot express a part of a request: leave it out and report it, or refuse the request.',
    }),
  ),
  strict_open_ai_compliance: Type.Optional(
    Type.Boolean({
      description:
        'Whether answers follow the OpenAI format strictly. `strict_openai_compliance` means the same.',
    }),
  ),
  fetch_integrated_models: Type.Optional(
    Type.Boolean({ description: 'Accepted because existing configs contain it; without effect.' }),
  ),
  ...providerFieldProperties,
  ...providerAliasProperties,
  deployments: Type.Optional(
    Type.Array(DeploymentSchema, {
      maxItems: 100,
      description: 'Azure deployments; one of them, or the one with `is_default`, is used.',
    }),
  ),
  before_request_hooks: GuardrailList('Guardrails and mutators of requests, which run first'),
  after_request_hooks: GuardrailList('Guardrails and mutators of answers, which run first'),
  input_guardrails: GuardrailList('Guardrails of requests'),
  output_guardrails: GuardrailList('Guardrails of answers'),
  input_mutators: GuardrailList('Changes of requests'),
  output_mutators: GuardrailList('Changes of answers'),
  prompt_id: name(notServed('Runs a saved prompt')),
  options: Type.Optional(
    Type.Unsafe<undefined>({
      not: {
        'x-expected':
          'no such key: it is what older clients call "targets". Write { "strategy": { "mode": … }, "targets": [ … ] }',
      },
      description: 'Former name of `targets`; refused.',
    }),
  ),
};

/** A config as given by a request, a file or an administrator; valid by the schema. */
export interface RouteConfigInput extends Static<TObject<typeof ownProperties>> {
  targets?: RouteConfigInput[];
}

/** Upper bound of sibling targets. */
const maxTargets = 256;

/** A config, each target of which is a config too. `compileConfig` checks its meaning. */
export const RouteConfigSchema = Type.Unsafe<RouteConfigInput>(
  Type.Cyclic(
    {
      RouteConfig: Type.Object(
        {
          ...ownProperties,
          targets: Type.Optional(
            Type.Array(Type.Ref('RouteConfig'), {
              maxItems: maxTargets,
              description:
                'Targets among which the strategy chooses. Each is a config itself and may have targets.',
            }),
          ),
        },
        strict,
      ),
    },
    'RouteConfig',
  ),
);

/** Members of a config that check or change requests and answers. */
export const guardrailKeys = [
  ['before_request_hooks', 'input', 'guardrail'],
  ['input_guardrails', 'input', 'guardrail'],
  ['input_mutators', 'input', 'mutator'],
  ['after_request_hooks', 'output', 'guardrail'],
  ['output_guardrails', 'output', 'guardrail'],
  ['output_mutators', 'output', 'mutator'],
] as const satisfies readonly (readonly [
  keyof RouteConfigInput,
  'input' | 'output',
  'guardrail' | 'mutator',
])[];

/** Members of defaults that name guardrails which apply without being named by a request. */
export const defaultGuardrailKeys = [guardrailKeys[1], guardrailKeys[4]] as const;
