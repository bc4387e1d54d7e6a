import { estimatedUsage } from '../../core/dialects/estimated-usage.ts';
import { callerKey } from '../../core/pipeline/keys.ts';
import {
  defineKey,
  definePlugin,
  GatewayError,
  type Outcome,
  type RequestContext,
} from '../../core/pipeline/plugin.ts';
import type { Decision, Window } from '../../core/ports/counters.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { PoliciesSchema } from './options.ts';
import { PolicySets, type Policy, type PolicySet } from './policy-set.ts';
import { Subject } from './subject.ts';

/** What was taken for a request whose use is not known yet. */
interface Reserved {
  readonly windows: readonly Window[];
  readonly tokens: number;
}

const reservedTokens = defineKey<Reserved>('reserved-tokens');

/** Policies of one type that are about a request, with the windows that it is counted in. */
class Charge {
  readonly policies: Policy[] = [];
  readonly windows: Window[] = [];

  add(policy: Policy, window: Window): void {
    this.policies.push(policy);
    this.windows.push(window);
  }

  get smallest(): number {
    let least = Infinity;
    for (const { limit } of this.windows) if (limit < least) least = limit;
    return least;
  }
}

/** Enforces the rate-limit policies of the caller's workspace and organisation: 429 `rate_limited`. */
export default definePlugin({
  name: 'policies',
  description:
    'Enforces the rate-limit policies that the administration API keeps, those of the workspace of the key and of its organisation: requests and tokens in sliding windows. Does nothing without policies, and while these are switched off (`POLICY_ENABLED=OFF`).',
  schema: PoliciesSchema,
  capabilities: { needs: ['key'] },
  create({ max_groups: maxGroups = 10_000, on_store_failure: onFailure = 'local' }, scope) {
    const { clock, counters, directory } = scope;
    if (!scope.features.isOn('policies')) return {};
    const sets = new PolicySets(maxGroups);

    function decide(context: RequestContext, key: KeyRecord, { policies }: PolicySet): void | Promise<void> {
      const subject = new Subject(context, key, directory);
      const now = clock.monotonic();
      let requests: Charge | undefined;
      let tokens: Charge | undefined;
      for (const policy of policies) {
        if (!policy.applies(subject)) continue;
        const window = policy.windowOf(subject, now);
        if (window === undefined) throw noRoom(policy);
        if (policy.type === 'requests') (requests ??= new Charge()).add(policy, window);
        else (tokens ??= new Charge()).add(policy, window);
      }
      if (requests === undefined)
        return tokens === undefined ? undefined : reserve(context, tokens, undefined);
      const taken = requests;
      const decision = counters.take(taken.windows, 1, onFailure);
      if ('then' in decision)
        return decision.then((decided) => afterRequests(context, decided, taken, tokens));
      return afterRequests(context, decision, taken, tokens);
    }

    function afterRequests(
      context: RequestContext,
      decision: Decision,
      requests: Charge,
      tokens: Charge | undefined,
    ): void | Promise<void> {
      if (!decision.allowed) throw refusal(decision, requests);
      return tokens === undefined ? undefined : reserve(context, tokens, requests);
    }

    /** Takes what the request will probably use, until that is known: at most what would fit into an empty window. */
    function reserve(
      context: RequestContext,
      charge: Charge,
      requests: Charge | undefined,
    ): void | Promise<void> {
      const { totalTokens } = estimatedUsage(context);
      const amount = Math.max(1, Math.min(totalTokens, charge.smallest));
      const decision = counters.take(charge.windows, amount, onFailure);
      if ('then' in decision) {
        return decision.then((decided) => afterTokens(context, decided, { charge, amount, requests }));
      }
      return afterTokens(context, decision, { charge, amount, requests });
    }

    function afterTokens(
      context: RequestContext,
      decision: Decision,
      { charge, amount, requests }: { charge: Charge; amount: number; requests: Charge | undefined },
    ): void | Promise<void> {
      if (decision.allowed) {
        // A store that is away and lets everything through has counted nothing.
        if (decision.windows.length > 0)
          context.set(reservedTokens, { windows: charge.windows, tokens: amount });
        return undefined;
      }
      const refused = refusal(decision, charge);
      // What was refused counts nowhere.
      const returned = requests === undefined ? undefined : counters.adjust(requests.windows, -1);
      if (returned === undefined) throw refused;
      return returned.then(() => {
        throw refused;
      });
    }

    return {
      request(context) {
        const key = context.get(callerKey);
        if (key === undefined) return undefined;
        const { organisationId, workspaceId } = key;
        const records = directory.records('rate_limit_policy', { organisationId, workspaceId });
        if (records.length === 0) return undefined;
        const set = sets.of(records);
        if (set.needsBody && holdsJson(context)) {
          return context.body.load().then(() => decide(context, key, set));
        }
        return decide(context, key, set);
      },
      settled(context, outcome) {
        const reserved = context.get(reservedTokens);
        if (reserved === undefined) return undefined;
        const difference = usedTokens(context, outcome, reserved.tokens) - reserved.tokens;
        return difference === 0 ? undefined : counters.adjust(reserved.windows, difference);
      },
    };
  },
});

const jsonType = /\bjson\b/i;

/** Whether there is a body that has not been read and that may say a model: uploads stay unread. */
function holdsJson(context: RequestContext): boolean {
  const { body, endpoint } = context;
  if (!body.present || body.loaded) return false;
  return endpoint.modelled || jsonType.test(context.header('content-type') ?? '');
}

/** What counts in the end. Of a request that the client left, nobody knows: what was reserved stays. */
function usedTokens({ facts }: RequestContext, { kind }: Outcome, reserved: number): number {
  if (facts.cacheStatus.includes('HIT')) return 0;
  if (facts.usage !== undefined) return facts.usage.totalTokens;
  return kind === 'cancelled' && facts.attempts > 0 ? reserved : 0;
}

function refusal(decision: Decision, { policies }: Charge): GatewayError {
  const policy = policies[decision.refusedBy];
  const state = decision.windows[decision.refusedBy];
  // With something left, though not enough: a part of the window is the soonest that more is.
  const waitMs = state === undefined ? 0 : state.resetMs || state.windowMs / 60;
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new GatewayError(
    'rate_limited',
    `The rate-limit policy ${policy?.words ?? ''} is used up. Try again in ${seconds} s.`,
    { headers: ['retry-after', String(seconds)] },
  );
}

function noRoom(policy: Policy): GatewayError {
  const seconds = Math.ceil(policy.windowMs / 60_000);
  return new GatewayError(
    'rate_limited',
    `The rate-limit policy ${policy.words} counts as many groups as it can, and this request would begin another one. Try again in ${seconds} s, or send the values of a request before.`,
    { headers: ['retry-after', String(seconds)] },
  );
}
