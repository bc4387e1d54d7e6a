import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { listReply } from '../shared/replies.ts';

const Phase = Type.Union([Type.Literal('input'), Type.Literal('output')]);

const CheckReply = Type.Object({
  id: Type.String({ description: 'As guardrails name it: `default.contains`.' }),
  description: Type.String(),
  phases: Type.Array(Phase, { description: '`input`: it judges requests. `output`: it judges answers.' }),
  changes: Type.Boolean({ description: 'Whether it may change the texts that it judges.' }),
  timeout_ms: Type.Integer({
    description: 'Longest time of one judgement, unless the guardrail says another.',
  }),
  parameters: Type.Record(Type.String(), Type.Unknown(), { description: 'JSON schema of its parameters.' }),
});

const usualTimeoutMs = 5000;

/** `GET /guardrail-checks`: the checks that guardrails of this gateway can use, those of plugins too. */
export function guardrailChecksRoute({ guards }: Pick<Scope, 'guards'>): RouteDefinition {
  // The same for all callers until the configuration changes, and then there is another generation.
  const data = guards.ids.flatMap((id): Static<typeof CheckReply>[] => {
    const check = guards.definition(id);
    // Other names of a check are understood, and not offered.
    if (check?.id !== id) return [];
    const { description, phases, changes, timeoutMs, schema } = check;
    return [
      {
        ...{ id, description, phases: [...phases], changes: changes === true },
        timeout_ms: timeoutMs ?? usualTimeoutMs,
        parameters: JSON.parse(JSON.stringify(schema)) as Record<string, unknown>,
      },
    ];
  });
  return defineRoute({
    id: 'guardrail_checks.list',
    method: 'GET',
    path: '/guardrail-checks',
    summary: 'The checks that guardrails can use, with the schema of their parameters',
    scope: [
      ...['guardrails.list', 'guardrails.read'],
      ...['organisation_guardrails.list', 'organisation_guardrails.read'],
    ],
    feature: 'guardrails',
    // Reads only.
    audit: null,
    reply: Type.Object({ ...listReply, data: Type.Array(CheckReply) }),
    handle: () => ({ object: 'list' as const, total: data.length, data }),
  });
}
