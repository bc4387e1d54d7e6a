import { countedTokens, estimatedUsage } from '../../core/pipeline/estimated-usage.ts';
import { callerKey, limitsOnStoreFailure } from '../../core/pipeline/keys.ts';
import {
  defineKey,
  definePlugin,
  GatewayError,
  type RequestContext,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import {
  LimitCharges,
  limitName,
  takeCharges,
  type TokenReservation,
} from '../../core/access/limit-charges.ts';
import { type Policy, type PolicySet, PolicySets } from './policy-set.ts';
import { Subject } from './subject.ts';
import type { RateLimit } from '../../core/ports/limits.ts';

interface KeyCharges {
  readonly ofWorkspace: readonly RateLimit[] | undefined;
  readonly charges: LimitCharges;
}

/** What requests are counted in by the limits of their key and of its workspace; each made once, until they change. */
class OwnLimits {
  readonly #ofKeys = new WeakMap<KeyRecord, KeyCharges>();
  /** For keys without limits of their own: there may be many. */
  readonly #ofWorkspaces = new WeakMap<readonly RateLimit[], LimitCharges>();

  /** Undefined for no limits, which is what most keys have. */
  of(key: KeyRecord, ofWorkspace: readonly RateLimit[] | undefined): LimitCharges | undefined {
    const { rateLimits } = key;
    if (rateLimits === undefined) return ofWorkspace && this.#chargesOf(key, ofWorkspace);
    const known = this.#ofKeys.get(key);
    if (known !== undefined && known.ofWorkspace === ofWorkspace) return known.charges;
    const { id, name, organisationId } = key;
    const charges = new LimitCharges();
    charges.addLimits(rateLimits, {
      prefix: `key:${organisationId}:${id}`,
      organisationId,
      name: `key ${JSON.stringify(name)}`,
    });
    if (ofWorkspace !== undefined) charges.addAll(this.#chargesOf(key, ofWorkspace));
    this.#ofKeys.set(key, { ofWorkspace, charges });
    return charges;
  }

  #chargesOf({ organisationId, workspaceId: id }: KeyRecord, limits: readonly RateLimit[]): LimitCharges {
    let charges = this.#ofWorkspaces.get(limits);
    if (charges !== undefined) return charges;
    charges = new LimitCharges();
    const prefix = `workspace:${organisationId}:${id}`;
    charges.addLimits(limits, { prefix, organisationId, name: `workspace "${id}"` });
    this.#ofWorkspaces.set(limits, charges);
    return charges;
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
          'How many groups of one policy are counted at once in a process, where callers choose the groups (`metadata.*`, `model`, `provider` …). A request that would begin another one is refused until one has been idle for the length of its window.',
      }),
    ),
    on_store_failure: Type.Optional(
      Type.Union([Type.Literal('local'), Type.Literal('open'), Type.Literal('closed')], {
        default: 'local',
        description:
          'What happens while the shared counters (`storage.counters`) do not answer within 50 ms: `local` counts in this process, `open` lets requests through uncounted, `closed` refuses them with 503 `limits_unavailable`. The same holds for the limits of the providers that the request goes to.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type PoliciesOptions = Static<typeof PoliciesSchema>;

const reservedTokens = defineKey<TokenReservation>('reserved-tokens');
const noPolicies: readonly never[] = [];

/** Enforces the rate limits of the caller's key and workspace, and the rate-limit policies there: 429 `rate_limited`. */
export default definePlugin({
  name: 'policies',
  description:
    'Enforces the rate limits of the key and of its workspace, and the rate-limit policies that the administration API keeps for the workspace and its organisation: requests and tokens in sliding windows. Does nothing without any; policies do not count while they are switched off (`POLICY_ENABLED=OFF`).',
  schema: PoliciesSchema,
  capabilities: { needs: ['key'] },
  create({ max_groups: maxGroups = 10_000, on_store_failure: onStoreFailure = 'local' }, scope) {
    const { clock, counters, directory } = scope;
    const hasPolicies = scope.features.isOn('policies');
    const sets = new PolicySets(maxGroups);
    const ownLimits = new OwnLimits();

    /** Everything that the request is counted in. */
    function chargesOf(
      context: RequestContext,
      key: KeyRecord,
      own: LimitCharges | undefined,
      set: PolicySet | undefined,
    ): LimitCharges | undefined {
      if (set === undefined) return own;
      const subject = new Subject(context, key, directory);
      const now = clock.monotonic();
      const charges = new LimitCharges();
      if (own !== undefined) charges.addAll(own);
      for (const policy of set.policies) {
        if (!policy.applies(subject)) continue;
        const window = policy.windowOf(subject, now);
        if (window === undefined) throw noRoom(policy);
        charges.add(policy.type, window, policy.words);
      }
      return charges;
    }

    function decide(context: RequestContext, charges: LimitCharges | undefined): void | Promise<void> {
      if (charges === undefined) return undefined;
      const tokens = charges.tokens === undefined ? 0 : estimatedUsage(context).totalTokens;
      const reserved = takeCharges(charges, { counters, tokens, onStoreFailure, code: 'rate_limited' });
      if (reserved === undefined) return undefined;
      if ('then' in reserved) return reserved.then((taken) => keep(context, taken));
      keep(context, reserved);
    }

    return {
      request(context) {
        const key = context.get(callerKey);
        if (key === undefined) return undefined;
        if (onStoreFailure !== 'local') context.set(limitsOnStoreFailure, onStoreFailure);
        const { organisationId, workspaceId } = key;
        const own = ownLimits.of(key, directory.rateLimitsOf(organisationId, workspaceId));
        const records = hasPolicies
          ? directory.records('rate_limit_policy', { organisationId, workspaceId })
          : noPolicies;
        if (records.length === 0 && own === undefined) return undefined;
        const set = records.length === 0 ? undefined : sets.of(records);
        const needsBody = set?.needsBody === true || own?.tokens !== undefined;
        if (needsBody && holdsJson(context))
          return context.body.load().then(() => decide(context, chargesOf(context, key, own, set)));
        return decide(context, chargesOf(context, key, own, set));
      },
      settled(context, outcome) {
        const reserved = context.get(reservedTokens);
        return reserved?.settle(countedTokens(context, outcome, reserved.tokens));
      },
    };
  },
});

function keep(context: RequestContext, reserved: TokenReservation | undefined): void {
  if (reserved !== undefined) context.set(reservedTokens, reserved);
}

const jsonType = /\bjson\b/i;

/** Whether there is a body that has not been read and that may say a model: uploads stay unread. */
function holdsJson(context: RequestContext): boolean {
  const { body, endpoint } = context;
  if (!body.present || body.loaded) return false;
  return endpoint.modelled || jsonType.test(context.header('content-type') ?? '');
}

function noRoom(policy: Policy): GatewayError {
  const seconds = Math.ceil(policy.windowMs / 60_000);
  return new GatewayError(
    'rate_limited',
    `${policy.words} counts as many groups as it can, and this request would begin another one. Try again in ${seconds} s, or send the values of a request before.`,
    { limit: limitName(policy.words), headers: ['retry-after', String(seconds)] },
  );
}
