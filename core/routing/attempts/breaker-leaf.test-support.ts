import type { AttemptSettings, BreakerSettings, PlanLeaf } from '../plan/plan-node.ts';

/** Whose the breakers of these tests are. */
export const group = 'org-1';
/** The cooldown of these breakers. */
export const cooldownMs = 30_000;
/** When it is over in any case: the mark of a sliding window leaves with its sub-bucket. */
export const cooldownAtMost = (cooldownMs * 61) / 60 + 1;
const settings: BreakerSettings = {
  failureThreshold: 3,
  failureThresholdPercentage: undefined,
  minimumRequests: 0,
  cooldownMs,
  failureStatusCodes: undefined,
};

let leaves = 0;
/** A target with a breaker like this one, by default with an id of its own. */
export function leafWith(
  breaker: Partial<BreakerSettings> | undefined,
  id = `test#${(leaves += 1)}`,
): PlanLeaf {
  return {
    kind: 'leaf',
    id,
    path: 'config.targets[0]',
    name: 'first',
    weight: 1,
    provider: { name: 'openai', kind: 'provider' },
    settings: { apiKey: 'sk-secret' } as AttemptSettings,
    breaker: breaker === undefined ? undefined : { ...settings, ...breaker },
    hedge: undefined,
  };
}
