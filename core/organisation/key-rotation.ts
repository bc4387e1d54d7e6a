import { type Static, Type } from 'typebox';
import { budgetPeriod } from '../access/budget-period.ts';
import type { KeyRotation } from '../ports/resources.ts';
import { orNull, strict } from './fields.ts';
import type { Mistake } from '../base/json.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** How long a secret stays valid after its successor exists, in milliseconds. */
export const transition = {
  shortestMs: 30 * minuteMs,
  usualMs: 30 * minuteMs,
  longestMs: 90 * dayMs,
};

/** `rotation_policy` of bodies and answers. */
export const RotationPolicy = Type.Object(
  {
    rotation_period: Type.Optional(
      orNull(
        Type.Union([Type.Literal('weekly'), Type.Literal('monthly')], {
          description: '`weekly` on Mondays, `monthly` on the first, at 00:00 UTC.',
        }),
      ),
    ),
    rotation_period_days: Type.Optional(
      orNull(
        Type.Integer({
          minimum: 1,
          maximum: 365,
          description: 'Days between rotations, instead of a named period.',
        }),
      ),
    ),
    next_rotation_at: Type.Optional(
      orNull(
        Type.String({
          maxLength: 64,
          description:
            'Time of the next rotation, ISO 8601 with a time zone. Default: the next date of the period. Without a period, the only rotation.',
        }),
      ),
    ),
    key_transition_period_ms: Type.Optional(
      orNull(
        Type.Integer({
          minimum: transition.shortestMs,
          maximum: transition.longestMs,
          description:
            'Time after a rotation for which the previous secret is still accepted, in milliseconds: 30 minutes (the default) to 90 days, and shorter than the period.',
        }),
      ),
    ),
  },
  {
    ...strict,
    description: 'Automatic rotation of the secret. Null for none.',
  },
);

/** A policy of a body, with its time parsed. */
type GivenPolicy = Omit<Static<typeof RotationPolicy>, 'next_rotation_at'> & {
  /** Milliseconds since the epoch. */
  readonly nextAt: number | undefined;
};

/** Violations in a policy of a body, with their place; `known` is the present next rotation of the key. */
export function rotationIssues(given: GivenPolicy, now: number, known?: number): readonly Mistake[] {
  const { rotation_period: period, rotation_period_days: days, nextAt } = given;
  const issues: Mistake[] = [];
  const refuse = (member: string, message: string): void =>
    void issues.push({ path: `/rotation_policy${member}`, message });
  if (typeof period === 'string' && typeof days === 'number')
    refuse('/rotation_period_days', 'cannot stand beside rotation_period; leave one of them out');
  else if (typeof period !== 'string' && typeof days !== 'number' && nextAt === undefined)
    refuse(
      '',
      'does not say when; give rotation_period ("weekly" or "monthly"), rotation_period_days (1 to 365) or next_rotation_at',
    );
  if (nextAt !== undefined && nextAt <= now && nextAt !== known)
    refuse('/next_rotation_at', 'lies in the past; give a later moment, or leave it out');
  const longest = shortestPeriodMs(given);
  const transitionMs = given.key_transition_period_ms ?? transition.usualMs;
  if (longest !== undefined && transitionMs >= longest)
    refuse(
      '/key_transition_period_ms',
      `must be shorter than the rotation period, which is ${longest} ms; else the secret before would still be taken at the next rotation`,
    );
  return issues;
}

/** The policy of a key that is rotated every so many days from now on. */
export function dailyRotation(days: number, now: number): KeyRotation {
  return { days, transitionMs: transition.usualMs, nextAt: now + days * dayMs };
}

/** Whether the policy replaces the secret every so many days at least; months have 31. */
export function rotatesWithin(rotation: KeyRotation | undefined, days: number): boolean {
  if (rotation === undefined) return false;
  const { days: own, period } = rotation;
  return (own ?? (period === 'weekly' ? 7 : period === 'monthly' ? 31 : Infinity)) <= days;
}

function shortestPeriodMs({
  rotation_period: period,
  rotation_period_days: days,
}: GivenPolicy): number | undefined {
  if (typeof days === 'number') return days * dayMs;
  if (typeof period !== 'string') return undefined;
  return (period === 'weekly' ? 7 : 28) * dayMs;
}

/** The policy of a valid body. An unchanged period keeps the next rotation. */
export function rotationOf(given: GivenPolicy, now: number, before: KeyRotation | undefined): KeyRotation {
  const { rotation_period: period, rotation_period_days: days, nextAt } = given;
  const policy = {
    ...(typeof period === 'string' && { period }),
    ...(typeof days === 'number' && { days }),
    transitionMs: given.key_transition_period_ms ?? transition.usualMs,
  };
  const isSame = before !== undefined && before.period === policy.period && before.days === policy.days;
  return { ...policy, nextAt: nextAt ?? (isSame ? before.nextAt : (periodEnd(policy, now) ?? now)) };
}

/** A policy in the form of answers. */
export function showRotation(rotation: KeyRotation): Static<typeof RotationPolicy> {
  return {
    rotation_period: rotation.period ?? null,
    rotation_period_days: rotation.days ?? null,
    next_rotation_at: new Date(rotation.nextAt).toISOString(),
    key_transition_period_ms: rotation.transitionMs,
  };
}

/**
 * The policy after a rotation at this moment; undefined when no further one is due. Weeks and months follow the
 * calendar, from the first that begins after the previous secret has expired; days count from the due date of the
 * rotation.
 */
export function rotationBehind(
  rotation: KeyRotation,
  at: number,
  secretEnds: number,
): KeyRotation | undefined {
  const { days, nextAt: due } = rotation;
  if (days === undefined) {
    const nextAt = periodEnd(rotation, secretEnds);
    return nextAt === undefined ? undefined : { ...rotation, nextAt };
  }
  const lengthMs = days * dayMs;
  const missed = due > at ? at : due + Math.floor((at - due) / lengthMs) * lengthMs;
  return { ...rotation, nextAt: missed + lengthMs };
}

function periodEnd({ period, days }: Pick<KeyRotation, 'period' | 'days'>, at: number): number | undefined {
  if (days !== undefined) return at + days * dayMs;
  if (period === undefined) return undefined;
  return budgetPeriod({ periodicReset: period, periodicResetDays: undefined, nextResetAt: undefined }, 0)(at)
    .end;
}
