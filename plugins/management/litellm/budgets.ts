// Budgets of LiteLLM: a budget is a usage-limit policy over the keys whose metadata name it, with a count for each key.
import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject } from '../../../core/base/json.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type } from '../../../core/pipeline/plugin.ts';
import { strict } from '../shared/fields.ts';
import { budgetMetadata, foreign, litellmBodies, liteLLMDurations, litellmFields } from './fields.ts';
import { idIn, type OwnRoutes } from './own-routes.ts';

type Input = RouteInput<unknown, unknown, unknown>;

const conditionKey = `metadata.${budgetMetadata}`;
const feature = 'policies';
const Id = Type.String({ minLength: 1, maxLength: 255 });

/** `/budget/new`, `/budget/update`, `/budget/info`, `/budget/list` and `/budget/delete`. */
export function budgetRoutes(routes: OwnRoutes): readonly RouteDefinition[] {
  return [
    defineRoute({
      id: 'usage_limit_policies.litellm_new_budget',
      method: 'POST',
      path: '/budget/new',
      summary: 'LiteLLM: creates a budget: a usage-limit policy over the keys that are made with its id',
      scope: routes.scopeOf('usage_limit_policies.create'),
      feature,
      audit: 'create',
      body: litellmBodies.Budget,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body } = input;
        litellmFields.refuseForeign(body, foreign.budget);
        const id = body.budget_id ?? randomUUID();
        const known = await budgets(routes, input, (one) => budgetId(one) === id);
        if (known.length > 0)
          throw new GatewayError('already_exists', `There is a budget "${id}" already.`, {
            param: 'budget_id',
          });
        const made = await routes.run('usage_limit_policies.create', input, {
          body: {
            ...{ name: `budget ${id}`, type: 'cost', credit_limit: body.max_budget },
            ...{ conditions: [{ key: conditionKey, value: id }], group_by: [{ key: 'api_key' }] },
            ...limitOf(body),
          },
        });
        const params = { policyUsageLimitsId: idIn(made) };
        return show(await routes.run('usage_limit_policies.get', input, { params }));
      },
    }),
    defineRoute({
      id: 'usage_limit_policies.litellm_update_budget',
      method: 'POST',
      path: '/budget/update',
      summary: 'LiteLLM: updates a budget; omitted fields stay unchanged',
      scope: routes.scopeOf('usage_limit_policies.update'),
      feature,
      audit: 'update',
      body: litellmBodies.BudgetUpdate,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body } = input;
        litellmFields.refuseForeign(body, foreign.budget);
        const before = await requireBudget(routes, input, body.budget_id);
        const changed = await routes.run('usage_limit_policies.update', input, {
          params: { policyUsageLimitsId: idIn(before) },
          body: { ...(body.max_budget != null && { credit_limit: body.max_budget }), ...limitOf(body) },
        });
        return show(changed);
      },
    }),
    defineRoute({
      id: 'usage_limit_policies.litellm_budget_info',
      method: 'POST',
      path: '/budget/info',
      summary: 'LiteLLM: budgets, by their ids',
      scope: routes.scopeOf('usage_limit_policies.list'),
      feature,
      // Reads only.
      audit: null,
      body: Type.Object({ budgets: Type.Array(Id, { minItems: 1, maxItems: 100 }) }, strict),
      reply: Type.Array(litellmBodies.Shown),
      async handle(input) {
        const wanted = new Set(input.body.budgets);
        return (await budgets(routes, input, (one) => wanted.has(budgetId(one) ?? ''))).map(show);
      },
    }),
    defineRoute({
      id: 'usage_limit_policies.litellm_budget_list',
      method: 'GET',
      path: '/budget/list',
      summary: 'LiteLLM: all budgets that the caller may see',
      scope: routes.scopeOf('usage_limit_policies.list'),
      feature,
      // Reads only.
      audit: null,
      query: Type.Object({}, strict),
      reply: Type.Array(litellmBodies.Shown),
      async handle(input) {
        return (await budgets(routes, input, () => true)).map(show);
      },
    }),
    defineRoute({
      id: 'usage_limit_policies.litellm_delete_budget',
      method: 'POST',
      path: '/budget/delete',
      summary: 'LiteLLM: ends a budget; its keys are no longer bound by it',
      scope: routes.scopeOf('usage_limit_policies.delete'),
      feature,
      audit: 'delete',
      body: Type.Object({ id: Id }, strict),
      reply: litellmBodies.Shown,
      async handle(input) {
        const found = await requireBudget(routes, input, input.body.id);
        const params = { policyUsageLimitsId: idIn(found) };
        await routes.run('usage_limit_policies.delete', input, { params });
        return show(found);
      },
    }),
  ];
}

function budgets(routes: OwnRoutes, input: Input, isWanted: (policy: JsonObject) => boolean) {
  const isBudget = (one: JsonObject): boolean => budgetId(one) !== undefined && isWanted(one);
  return routes.find('usage_limit_policies.list', input, isBudget);
}

/** The policy that is the budget with this id. Throws `resource_not_found` when there is none. */
export async function requireBudget(routes: OwnRoutes, input: Input, id: string): Promise<JsonObject> {
  const [found] = await budgets(routes, input, (one) => budgetId(one) === id);
  if (found !== undefined) return found;
  throw new GatewayError('resource_not_found', `There is no budget "${id}". GET /budget/list shows them.`, {
    param: 'budget_id',
  });
}

/** Id of the budget that a policy is; undefined for a policy that is none. */
function budgetId({ conditions }: JsonObject): string | undefined {
  const [condition, ...others] = Array.isArray(conditions) ? conditions.filter(isJsonObject) : [];
  if (others.length > 0 || condition?.['key'] !== conditionKey) return undefined;
  return typeof condition['value'] === 'string' ? condition['value'] : undefined;
}

interface GivenBudget {
  readonly soft_budget?: number | null;
  readonly budget_duration?: string | null;
  readonly budget_reset_at?: string | null;
}

function limitOf({
  soft_budget: soft,
  budget_duration: period,
  budget_reset_at: next,
}: GivenBudget): JsonObject {
  return {
    ...(soft !== undefined && { alert_threshold: soft }),
    ...litellmFields.period(period),
    ...(typeof next === 'string' && { next_usage_reset_at: next }),
  };
}

/** A policy as LiteLLM shows a budget. */
function show(one: JsonObject): JsonObject {
  return {
    budget_id: budgetId(one) ?? null,
    max_budget: one['credit_limit'] ?? null,
    soft_budget: one['alert_threshold'] ?? null,
    budget_duration: liteLLMDurations.period(one),
    budget_reset_at: one['next_reset_at'] ?? null,
    max_parallel_requests: null,
    tpm_limit: null,
    rpm_limit: null,
    model_max_budget: null,
    created_at: one['created_at'] ?? null,
    updated_at: one['last_updated_at'] ?? null,
  };
}
