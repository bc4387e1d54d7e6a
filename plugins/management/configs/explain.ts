import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type JsonValue, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { RouteConfigSchema } from '../../../core/organisation/route-config.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { Name, orNull, strict } from '../shared/fields.ts';
import { places } from '../shared/records.ts';
import { configUses } from './uses.ts';
import { writeJson } from '../../../core/base/json.ts';

export const Config = Type.Union(
  [Type.Record(Type.String(), Type.Unknown()), Type.String({ maxLength: 65_536 })],
  {
    description:
      'Config in the same form as in requests (see configs.md), as an object or as JSON in a text; 64 KiB at the most.',
    examples: [{ retry: { attempts: 2 } }],
  },
);

/** The config of a body as JSON, for the router to check. */
export function configText(config: Static<typeof Config>): string {
  return typeof config === 'string' ? config : writeJson(config);
}

/** Most targets that an explanation lists. */
const mostTries = 100;
/** Most decisions that it lists. */
const mostBranches = 200;

const optional = { path: Type.String(), name: Type.Optional(Type.String()) };
const Milliseconds = orNull(Type.Number());

const Branch = Type.Object({
  path: Type.String({ description: 'Place in the config: `config.targets[1]`.' }),
  mode: Type.String(),
  reason: Type.Optional(Type.String({ description: 'Why: `condition 1 matched`.' })),
  random: Type.Boolean({ description: 'Decided by chance: another request may go another way.' }),
  candidates: Type.Array(
    Type.Object({
      ...optional,
      order: Type.Optional(Type.Integer({ description: 'Place in the order of trying; absent: not tried.' })),
      score: Type.Optional(
        Type.Number({ description: 'Weight, percentage, milliseconds to the first token, or US dollars.' }),
      ),
      chance: Type.Optional(Type.Number({ description: 'Probability of being tried first, 0 to 1.' })),
      skipped: Type.Optional(Type.String({ description: 'Why it is left out.' })),
    }),
  ),
});

const Try = Type.Object({
  option: Type.String({ description: 'Place of the target in the config.' }),
  name: orNull(Type.String()),
  provider: Type.String({ description: 'Empty when the request names it.' }),
  model: Type.String(),
  params: Type.Object({
    set: Type.Record(Type.String(), Type.Unknown(), { description: 'Members that the config sets.' }),
    removed: Type.Array(Type.String()),
  }),
  request_timeout_ms: Milliseconds,
  first_token_timeout_ms: Milliseconds,
  idle_timeout_ms: Milliseconds,
  retry: orNull(
    Type.Object({
      attempts: Type.Integer(),
      on_status_codes: Type.Array(Type.Integer()),
      use_retry_after_headers: Type.Boolean(),
    }),
  ),
  cache: orNull(
    Type.Object({ mode: Type.String(), max_age_ms: Milliseconds, threshold: orNull(Type.Number()) }),
  ),
  breaker: orNull(Type.Object({ failure_threshold: Type.Number(), cooldown_ms: Type.Number() })),
  hedge: orNull(Type.Object({ after_ms: Type.Number(), others: Type.Array(Type.String()) })),
  on_failure: Type.Array(
    Type.Object({
      statuses: orNull(Type.Array(Type.Integer(), { description: 'Null: every status but 2xx.' })),
      by: Type.String({ description: 'The fallback that decides.' }),
      then: Type.String({ description: 'The target or branch that is next.' }),
    }),
  ),
  problem: orNull(Type.String({ description: 'Why there would be no attempt.' })),
});

const Sample = Type.Object(
  {
    method: Type.Optional(
      Type.String({ pattern: '^[A-Za-z]{1,20}$', default: 'POST', 'x-expected': 'a method, as POST' }),
    ),
    path: Type.Optional(
      Type.String({
        pattern: '^/[\\x21-\\x7e]*$',
        maxLength: 2048,
        default: '/v1/chat/completions',
        'x-expected': 'a path that begins with "/"',
      }),
    ),
    headers: Type.Optional(
      Type.Record(
        Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$" }),
        Type.String({ maxLength: 16_384 }),
        {
          additionalProperties: false,
          maxProperties: 100,
          description: 'As a client sends them. Credentials in them have no effect.',
        },
      ),
    ),
    body: Type.Optional(Type.Unknown({ description: 'JSON, or a text that is sent unchanged.' })),
  },
  { ...strict, default: {}, description: 'The request that is thought of.' },
);

/** `POST /configs/explain`: where a config would lead a request. */
export function explainConfigRoute({ directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.explain',
    method: 'POST',
    path: '/configs/explain',
    summary: 'Tells where a config, saved or not, would lead a request, and why; nothing is sent',
    scope: 'configs.read',
    // Reads only.
    audit: null,
    body: Type.Object(
      {
        config: Config,
        slug: Type.Optional(Name('Its slug, for one that is saved: it must not lead to itself.')),
        workspace_id: Type.Optional(
          Name('Id or slug of the workspace whose providers and configs it names. Default: that of the key.'),
        ),
        request: Type.Optional(Sample),
      },
      strict,
    ),
    reply: Type.Object({
      success: Type.Literal(true),
      data: Type.Object({
        branches: Type.Array(Branch, {
          description: 'What each branch decides, as if every attempt failed: all of the plan is seen.',
        }),
        tries: Type.Array(Try, { description: 'Targets in the order of trying.' }),
        refused: orNull(Type.Object({ status: Type.Integer(), code: Type.String(), message: Type.String() })),
        assumptions: Type.Array(Type.String()),
        truncated: Type.Boolean({
          description: `Something was left out: there are at most ${mostTries} tries and ${mostBranches} branches.`,
        }),
      }),
    }),
    async handle({ body, key, role, read }) {
      configUses.requireAccess({ key, role }, directory, 'view');
      const { organisationId, workspaceId } = await read((reader) =>
        places.ofList(reader, key, body.workspace_id),
      );
      const { method = 'POST', path = '/v1/chat/completions', headers = {}, body: sent } = body.request ?? {};
      const draft = {
        text: configText(body.config),
        slug: body.slug ?? 'draft',
        place: { organisationId, ...(workspaceId !== undefined && { workspaceId }) },
      };
      const caller: KeyRecord = { ...key, organisationId, workspaceId: workspaceId ?? '' };
      const request = { method: method.toUpperCase(), path, headers, body: sent as JsonValue | undefined };
      const { branches, tries, ...rest } = await router.explainConfig(draft, request, caller);
      return {
        success: true as const,
        data: {
          branches: branches.slice(0, mostBranches),
          tries: tries.slice(0, mostTries),
          ...rest,
          truncated: tries.length > mostTries || branches.length > mostBranches,
        },
      };
    },
  });
}

/** The schema with references that every reader of JSON Schema follows. */
const schemaOfConfigs = ((): Record<string, unknown> => {
  const text = JSON.stringify(RouteConfigSchema, (name, value: unknown) =>
    name === '$id' ? undefined : name === '$ref' && value === 'RouteConfig' ? '#/$defs/RouteConfig' : value,
  );
  const schema = JSON.parse(text) as Record<string, unknown>;
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'Config', ...schema };
})();

/** `GET /configs/schema`: for editors. */
export function schemaRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.schema',
    method: 'GET',
    path: '/configs/schema',
    summary: 'The JSON Schema of configs, for editors',
    scope: ['configs.read', 'configs.list'],
    // Reads only.
    audit: null,
    reply: Type.Record(Type.String(), Type.Unknown()),
    handle({ key, role }) {
      configUses.requireAccess({ key, role }, directory, 'view');
      return Promise.resolve(schemaOfConfigs);
    },
  });
}
