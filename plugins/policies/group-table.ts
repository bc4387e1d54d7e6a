import type { Window } from '../../core/ports/counters.ts';
import { sha256 } from '../../core/base/sha256.ts';

/** Longer groups are counted under a digest, so that what callers send takes little room. */
const longestName = 128;

/** What a policy counts in. */
export interface GroupRule {
  /** Of the counters: unique for the policy. */
  readonly prefix: string;
  readonly organisationId: string;
  readonly limit: number;
  readonly windowMs: number;
  /** Callers choose the groups: beyond `maxGroups` new ones are refused, and none that counts is forgotten. */
  readonly isInvented: boolean;
  readonly maxGroups: number;
}

interface Group {
  readonly window: Window;
  usedAt: number;
}

/** The windows of one policy by group, bounded; those that were used last are at the end. */
export class GroupTable {
  private readonly rule: GroupRule;
  private readonly groups = new Map<string, Group>();

  constructor(rule: GroupRule) {
    this.rule = rule;
  }

  get size(): number {
    return this.groups.size;
  }

  /** The window of a group; undefined when there is no room for another one. `now` is monotonic milliseconds. */
  window(group: string, now: number): Window | undefined {
    const name = group.length > longestName ? sha256(group, 'base64') : group;
    const known = this.groups.get(name);
    if (known !== undefined) {
      known.usedAt = now;
      // A map keeps the order of insertion.
      this.groups.delete(name);
      this.groups.set(name, known);
      return known.window;
    }
    if (!this.hasRoom(now)) return undefined;
    const { prefix, organisationId, limit, windowMs } = this.rule;
    const window = { key: `${prefix}:${name}`, group: organisationId, limit, windowMs };
    this.groups.set(name, { window, usedAt: now });
    return window;
  }

  private hasRoom(now: number): boolean {
    const { maxGroups, windowMs, isInvented } = this.rule;
    if (this.groups.size < maxGroups) return true;
    const [oldest] = this.groups;
    if (oldest === undefined) return false;
    const [name, { usedAt }] = oldest;
    // A window counts for one of its sixty parts longer than it is.
    if (isInvented && now - usedAt <= windowMs + windowMs / 60) return false;
    this.groups.delete(name);
    return true;
  }
}
