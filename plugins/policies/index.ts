import { countedUsage, learnedUsageOf, learnsFrom } from '../../core/pipeline/estimated-usage.ts';
import { callerKey, limitsOnStoreFailure } from '../../core/pipeline/keys.ts';
import {
  defineKey,
  definePlugin,
  GatewayError,
  type Outcome,
  type RequestContext,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import {
  keyBudgetKey,
  LargerCharges,
  LimitCharges,
  limitName,
  takeCharges,
  workspaceBudgetKey,
} from '../../core/access/limit-charges.ts';
import { type PolicySet, PolicySets, type RatePolicy, Subject, type UsagePolicy } from './policy-set.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import {
  type BudgetAmounts,
  type Budgets,
  type ExpectedUse,
  nothingExpected,
  type OwnedUsageLimit,
  rateCrossingPrefix,
} from '../../core/ports/budgets.ts';
import { whenAnswered } from '../../core/organisation/guardrails.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { LimitReservation, Window } from '../../core/ports/counters.ts';
import type { PolicyTarget } from '../../core/ports/record-kinds.ts';
import { addToolCallGate } from '../../core/pipeline/tool-calls.ts';

interface KeyCharges {
  readonly ofWorkspace: LimitCharges | undefined;
  readonly charges: LimitCharges;
}

interface WorkspaceCharges {
  /** The usage limits from which the charges were made. */
  readonly usages: readonly OwnedUsageLimit[] | undefined;
  readonly charges: LimitCharges;
}

/** Charges for the limits of a key and of its workspace; cached until the limits change. */
class OwnLimits {
  readonly #ofKeys = new WeakMap<KeyRecord, KeyCharges>();
  readonly #ofTools = new WeakMap<LimitCharges, LimitCharges>();
  /** By the workspace's list of rate limits, or of usage limits when it has no rate limits. */
  readonly #ofWorkspaces = new WeakMap<object, WorkspaceCharges>();
  readonly #directory: Directory;

  constructor(directory: Directory) {
    this.#directory = directory;
  }

  /** Undefined without limits, as for most keys. */
  of(key: KeyRecord): LimitCharges | undefined {
    const { rateLimits = none, usageLimits = none, id, name, organisationId, workspaceId } = key;
    const ofWorkspace = this.#workspaceCharges(organisationId, workspaceId);
    if (rateLimits.length + usageLimits.length === 0) return ofWorkspace;
    const known = this.#ofKeys.get(key);
    if (known !== undefined && known.ofWorkspace === ofWorkspace) return known.charges;
    const charges = new LimitCharges();
    const prefix = keyBudgetKey(organisationId, id);
    charges.addLimits(rateLimits, { prefix, organisationId, name: `key ${JSON.stringify(name)}` });
    charges.addUsageLimits(usageLimits, prefix, organisationId, { type: 'api_key', id, name, workspaceId });
    if (ofWorkspace !== undefined) charges.addAll(ofWorkspace);
    this.#ofKeys.set(key, { ofWorkspace, charges });
    return charges;
  }

  /** The part of them that counts calls of tools: limits of requests. A call has neither tokens nor a cost. */
  ofTools(key: KeyRecord): LimitCharges | undefined {
    const all = this.of(key);
    if (all === undefined) return undefined;
    let part = this.#ofTools.get(all);
    if (part === undefined) {
      part = new LimitCharges();
      const budgets = all.budgets?.filter(({ unit }) => unit === 'requests');
      part.addAll({ requests: all.requests, tokens: undefined, budgets });
      this.#ofTools.set(all, part);
    }
    return part.requests === undefined && part.budgets === undefined ? undefined : part;
  }

  #workspaceCharges(organisationId: string, id: string): LimitCharges | undefined {
    const rates = this.#directory.rateLimitsOf(organisationId, id);
    const usages = this.#directory.usageLimitsOf(organisationId, id);
    const by = rates ?? usages;
    if (by === undefined) return undefined;
    const known = this.#ofWorkspaces.get(by);
    if (known !== undefined && known.usages === usages) return known.charges;
    const charges = new LimitCharges();
    const prefix = workspaceBudgetKey(organisationId, id);
    charges.addLimits(rates ?? none, { prefix, organisationId, name: `workspace "${id}"` });
    charges.addUsageLimits(usages ?? none, prefix, organisationId, {
      type: 'workspace',
      id,
      name: id,
      workspaceId: id,
    });
    this.#ofWorkspaces.set(by, { usages, charges });
    return charges;
  }
}

const none: readonly never[] = [];

const dayMs = 86_400_000;
/** Upper bound of groups remembered as alerted. After an eviction the alert repeats, and the ledger deduplicates it. */
const maxRemembered = 10_000;

/** Alerts about rate-limit policies that refuse requests: once a day (UTC) for each group of a policy. */
class RateAlerts {
  readonly #budgets: Pick<Budgets, 'tell'>;
  readonly #clock: Pick<Clock, 'now'>;
  /** The last alerted mark by key. */
  readonly #told = new RecentMap<string>(maxRemembered);

  constructor(budgets: Pick<Budgets, 'tell'>, clock: Pick<Clock, 'now'>) {
    this.#budgets = budgets;
    this.#clock = clock;
  }

  /** Alerts when `window`, which refused the request of `subject`, belongs to one of these policies. */
  refused(window: Window, policies: readonly RatePolicy[], subject: Subject): void {
    const policy = policies.find((one) => one.owns(window));
    if (policy !== undefined) this.#tell(policy, policy.groupOf(subject));
  }

  #tell({ record }: RatePolicy, valueKey: string): void {
    const { id, name, organisationId, workspaceId, data } = record;
    const { type, unit, value } = data;
    const at = this.#clock.now();
    const key = `${rateCrossingPrefix}${id}:${valueKey}`;
    const mark = `${Math.floor(at / dayMs)}:${value}`;
    if (this.#told.touch(key) === mark) return;
    this.#told.set(key, mark);
    this.#budgets.tell({
      id: `${key}:exhausted:${mark}`,
      kind: 'exhausted',
      key,
      mark,
      organisationId,
      workspaceId,
      subject: { type: 'rate_limit_policy', id, name, ...(valueKey !== '' && { valueKey }) },
      unit: type,
      limit: value,
      per: unit,
      threshold: undefined,
      used: value,
      resetsAt: undefined,
      at,
    });
  }
}

/** Options of `policies`. */
const PoliciesSchema = Type.Object(
  {
    max_groups: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 10_000,
        description:
          'Most groups of one policy that a process counts at once, where callers choose the groups (`metadata.*`, `model`, `provider` …). A request that would start a further group is refused until a group has been idle for the length of its window.',
      }),
    ),
    on_store_failure: Type.Optional(
      Type.Union([Type.Literal('local'), Type.Literal('open'), Type.Literal('closed')], {
        default: 'local',
        description:
          'Behaviour while the shared counters (`storage.counters`) do not answer within 50 ms: `local` counts in this process, `open` lets requests through uncounted, `closed` refuses them with 503 `limits_unavailable`. It also applies to the limits of the providers of the request.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type PoliciesOptions = Static<typeof PoliciesSchema>;

const reservation = defineKey<LimitReservation>('limit-reservation');

/** What the calls of tools of one request have reserved. */
interface ToolReservations {
  readonly taken: LimitReservation[];
  hasSettled: boolean;
}

const toolReservations = defineKey<ToolReservations>('tool-reservations');
/** One call of a tool, in budgets. */
const oneCall: BudgetAmounts = { cost: 0, tokens: 0, requests: 1 };

/**
 * Enforces the limits of the caller's key and workspace, and the policies there: 429 `rate_limited` for rates, 412
 * `budget_exhausted` for what may be used. Of requests to MCP servers it counts the calls of tools, each by itself.
 */
export default definePlugin({
  name: 'policies',
  description:
    'Enforces the limits of the key and its workspace, and the policies of the workspace and its organisation in the administration API: rates of requests and tokens in sliding windows, and budgets of dollars, tokens and requests. Of requests to MCP servers it counts each call of a tool. Without limits and policies it does nothing; policies have no effect while they are switched off (`POLICY_ENABLED=OFF`).',
  schema: PoliciesSchema,
  capabilities: { needs: ['key'] },
  create({ max_groups: maxGroups = 10_000, on_store_failure: onStoreFailure = 'local' }, scope) {
    const { budgets, clock, directory, features, limiter, prices, router } = scope;
    const hasPolicies = features.isOn('policies');
    const sets = new PolicySets(maxGroups);
    const ownLimits = new OwnLimits(directory);
    const learned = learnedUsageOf(limiter);
    const alerts = new RateAlerts(budgets, clock);
    /** Charges of callers without limits of their own. */
    const noCharges = new LimitCharges();
    const larger = new LargerCharges();

    /** All windows and budgets that count the request. */
    function chargesOf(
      subject: Subject,
      own: LimitCharges | undefined,
      set: PolicySet | undefined,
    ): LimitCharges | undefined {
      if (set === undefined) return own;
      const now = clock.monotonic();
      let charges = own ?? noCharges;
      for (const policy of set.rates) {
        if (!policy.applies(subject)) continue;
        const window = policy.windowOf(subject, now);
        if (window === undefined) throw noRoom(policy);
        charges = larger.withWindow(charges, policy.type, window, policy.words);
      }
      for (const policy of set.usages) {
        if (!policy.applies(subject)) continue;
        const budget = policy.budgetOf(subject);
        if (budget === undefined) throw noBudget(policy);
        charges = larger.withBudget(charges, budget);
      }
      return charges;
    }

    function expectedUse(context: RequestContext, { needsTokens, needsCost }: LimitCharges): ExpectedUse {
      if (needsCost) {
        const price = router.expectedPrice(context);
        return learned.expectedOf(context, { prices, price, at: context.startedAt });
      }
      return needsTokens ? learned.expectedOf(context) : nothingExpected;
    }

    function take(
      charges: LimitCharges,
      expected: ExpectedUse,
      subject: Subject,
      set: PolicySet | undefined,
    ): ReturnType<typeof takeCharges> {
      const refusedBy = set && ((window: Window) => alerts.refused(window, set.rates, subject));
      const code = 'rate_limited';
      return takeCharges(charges, { limiter, expected, onStoreFailure, code, refusedBy });
    }

    function policiesOf({ organisationId, workspaceId }: KeyRecord, target: PolicyTarget) {
      if (!hasPolicies) return undefined;
      const place = { organisationId, workspaceId };
      return sets.of(
        target,
        directory.records('rate_limit_policy', place),
        directory.records('usage_limit_policy', place),
      );
    }

    /** Counts each call of a tool that the request holds. */
    function limitTools(context: RequestContext, key: KeyRecord): void {
      const own = ownLimits.ofTools(key);
      const set = policiesOf(key, 'mcp_tools');
      if (own === undefined && set === undefined) return;
      const reservations: ToolReservations = { taken: [], hasSettled: false };
      context.set(toolReservations, reservations);
      addToolCallGate(context, {
        before(call) {
          const subject = new Subject(context, key, directory, call);
          const charges = chargesOf(subject, own, set);
          const reserved = charges && take(charges, nothingExpected, subject, set);
          if (reserved === undefined) return undefined;
          if ('then' in reserved) return reserved.then((taken) => keepOfTool(reservations, taken));
          return keepOfTool(reservations, reserved);
        },
      });
    }

    function decide(
      context: RequestContext,
      key: KeyRecord,
      own: LimitCharges | undefined,
      set: PolicySet | undefined,
    ): void | Promise<void> {
      const subject = new Subject(context, key, directory);
      const charges = chargesOf(subject, own, set);
      if (charges === undefined) return undefined;
      const reserved = take(charges, expectedUse(context, charges), subject, set);
      if (reserved === undefined) return undefined;
      context.set(learnsFrom, learned);
      if ('then' in reserved) return reserved.then((taken) => keepReservation(context, taken));
      keepReservation(context, reserved);
    }

    return {
      request(context) {
        const key = context.get(callerKey);
        if (key === undefined) return undefined;
        if (onStoreFailure !== 'local') context.set(limitsOnStoreFailure, onStoreFailure);
        if (context.endpoint.id === 'mcp') return limitTools(context, key);
        const own = ownLimits.of(key);
        const set = policiesOf(key, 'llm');
        if (set === undefined && own === undefined) return undefined;
        const needsBody = set?.needsBody === true || own?.needsTokens === true || own?.needsCost === true;
        if (needsBody && holdsJson(context))
          return context.body.load().then(() => whenAnswered(() => decide(context, key, own, set)));
        return whenAnswered(() => decide(context, key, own, set));
      },
      settled(context, outcome) {
        const ofTools = context.get(toolReservations);
        if (ofTools !== undefined) return settleTools(ofTools, context, outcome);
        const reserved = context.get(reservation);
        if (reserved === undefined) return undefined;
        return reserved.settle(countedUsage(context, outcome, reserved.reserved));
      },
    };
  },
});

function keepReservation(context: RequestContext, reserved: LimitReservation | undefined): void {
  if (reserved !== undefined) context.set(reservation, reserved);
}

function keepOfTool({ taken, hasSettled }: ToolReservations, reserved: LimitReservation | undefined): void {
  if (reserved === undefined) return;
  // The decision came after the end of the request, and nothing else would settle it.
  if (hasSettled) void reserved.settle(oneCall);
  else taken.push(reserved);
}

async function settleTools(
  reservations: ToolReservations,
  context: RequestContext,
  outcome: Outcome,
): Promise<void> {
  reservations.hasSettled = true;
  const storing: Promise<void>[] = [];
  for (const one of reservations.taken) {
    const stored = one.settle(countedUsage(context, outcome, one.reserved));
    if (stored instanceof Promise) storing.push(stored);
  }
  await Promise.all(storing);
}

const jsonType = /\bjson\b/i;

/** True for an unread body that may name a model: uploads stay unread. */
function holdsJson(context: RequestContext): boolean {
  const { body, endpoint } = context;
  if (!body.present || body.loaded) return false;
  return endpoint.modelled || jsonType.test(context.header('content-type') ?? '');
}

function noBudget({ words }: UsagePolicy): GatewayError {
  return new GatewayError(
    'rate_limited',
    `${words} counts as many groups as it can (max_groups of the plugin policies), and this request would begin another one. Send the values of a request before.`,
    { limit: limitName(words) },
  );
}

function noRoom(policy: RatePolicy): GatewayError {
  const seconds = Math.ceil(policy.windowMs / 60_000);
  return new GatewayError(
    'rate_limited',
    `${policy.words} counts as many groups as it can, and this request would begin another one. Try again in ${seconds} s, or send the values of a request before.`,
    { limit: limitName(policy.words), headers: ['retry-after', String(seconds)] },
  );
}
