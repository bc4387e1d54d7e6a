import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { eachRecord } from './visible-record.ts';

const maxNamed = 10;

/**
 * Throws `resource_conflict`, naming ten of them at the most, while configs, deployments or prompts name one of these
 * providers.
 */
export async function requireUnused(
  reader: Pick<ResourcesReader, 'records'>,
  organisationId: string,
  providers: readonly StoredRecord<'provider'>[],
): Promise<void> {
  if (providers.length === 0) return;
  const users: string[] = [];
  for (const kind of ['config', 'deployment', 'prompt'] as const) {
    for await (const record of eachRecord(reader, kind, organisationId, { status: 'active' })) {
      const used = providers.some(
        (provider) => isWithin(provider, record) && namesProvider(record.data, provider),
      );
      if (used) users.push(`the ${kind} "${record.slug}"`);
      if (users.length === maxNamed) break;
    }
  }
  if (users.length === 0) return;
  throw new GatewayError(
    'resource_conflict',
    `It is in use: ${users.slice(0, maxNamed).join(', ')}. Change what names it first.`,
  );
}

/** What belongs to the organisation is used in every workspace. */
function isWithin({ workspaceId }: StoredRecord, user: StoredRecord): boolean {
  return user.workspaceId === undefined || user.workspaceId === workspaceId;
}

/** Whether anything in this value names the provider: a virtual key, `@slug`, or a model `@slug/…`. */
function namesProvider(value: unknown, { id, slug }: StoredRecord): boolean {
  const waiting: unknown[] = [value];
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    if (typeof one === 'string' && (one === `@${slug}` || one.startsWith(`@${slug}/`))) return true;
    if (typeof one !== 'object' || one === null) continue;
    for (const [name, member] of Object.entries(one)) {
      const isKey = name === 'virtual_key' || name === 'virtualKey';
      if (isKey && (member === slug || member === id)) return true;
      if (member !== undefined) waiting.push(member);
    }
  }
  return false;
}
