import type { AttemptSettings, BreakerSettings, PlanLeaf } from '../plan/plan-node.ts';

/** Organisation of the breakers in these tests. */
export const group = 'org-1';
/** The cooldown of these breakers. */
export const cooldownMs = 30_000;
/** Upper bound of the cooldown: the mark in a sliding window expires with its sub-bucket. */
export const cooldownAtMost = (cooldownMs * 61) / 60 + 1;
const settings: BreakerSettings = {
  failureThreshold: 3,
  failureThresholdPercentage: undefined,
  minimumRequests: 0,
  cooldownMs,
  failureStatusCodes: undefined,
};

let leaves = 0;
/** A target with this breaker, by default with a unique id. */
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
