import type { TimeWindow, Visibility } from '../../core/ports/analytics.ts';

/** The last moment that the store's time type can hold, in the year 2299. */
const endOfTime = 10_413_791_999_999;

/** Placeholders are filled by `moments`. */
export const inWindow = between('from', 'to');

/** For sub-selects over further tables that have the columns: the organisation, and the workspace when there is one. */
export const inPlace =
  'organisation_id = {organisation:String} AND ({everywhere:UInt8} OR workspace_id = {workspace:String})';
/** The same for feedback, which also says who gave it. */
export const whoseEver = `${inPlace} AND ({everybody:UInt8} OR user_id = {user:String}) AND ({every_key:UInt8} OR api_key_id = {key:String})`;

/** The conditions that every query carries, with their values apart from them. */
export function visible(
  window: TimeWindow,
  { organisationId, workspaceId, userId, apiKeyId }: Visibility,
): {
  /** For requests. */
  where: string;
  /** For requests and feedback, with times of their own. */
  whose: string;
  /** For roll-ups, which say what time they mean: the organisation, and the workspace when there is one. */
  owned: string;
  /** For bodies, which have no column for who sent them. */
  place: string;
  parameters: Record<string, unknown>;
} {
  const conditions = ['organisation_id = {organisation:String}'];
  if (workspaceId !== undefined) conditions.push('workspace_id = {workspace:String}');
  const owned = conditions.join(' AND ');
  if (userId !== undefined) conditions.push('user_id = {user:String}');
  if (apiKeyId !== undefined) conditions.push('api_key_id = {key:String}');
  const whose = conditions.join(' AND ');
  return {
    where: `${whose} AND ${inWindow}`,
    whose,
    owned,
    place: `${owned} AND ${inWindow}`,
    parameters: {
      organisation: organisationId,
      workspace: workspaceId ?? '',
      everywhere: workspaceId === undefined ? 1 : 0,
      everybody: userId === undefined ? 1 : 0,
      every_key: apiKeyId === undefined ? 1 : 0,
      user: userId ?? '',
      key: apiKeyId ?? '',
      ...moments(window),
    },
  };
}

export function moments({ from, to }: TimeWindow): { from: number; to: number } {
  return { from: moment(from), to: moment(to) };
}

export function moment(time: number): number {
  return Math.min(Math.max(Math.ceil(time), 0), endOfTime);
}

/** Rows of the time from one placeholder to another, both milliseconds since the epoch. */
export function between(from: string, to: string): string {
  return `created_at >= fromUnixTimestamp64Milli({${from}:Int64}, 'UTC') AND created_at < fromUnixTimestamp64Milli({${to}:Int64}, 'UTC')`;
}
