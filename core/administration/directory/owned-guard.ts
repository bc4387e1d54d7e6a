import { GatewayError } from '../../errors/gateway-error.ts';
import type { Page, Paged } from '../../ports/page.ts';
import type { FileRecords } from './file-records.ts';

/** A page of a list that begins with `own`; of the store only what is missing is asked for. */
export async function listed<T>(
  own: readonly T[],
  { offset, limit }: Page,
  store: (rest: Page) => Promise<Paged<T>>,
): Promise<Paged<T>> {
  const shown = own.slice(offset, offset + limit);
  const rest = await store({
    offset: Math.max(0, offset - own.length),
    limit: Math.max(0, limit - shown.length),
  });
  return { total: own.length + rest.total, data: [...shown, ...rest.data] };
}

/** Throws `resource_conflict` for a record that the file owns. `subject`: `The key "batch"`. */
export function refuseOwned(records: FileRecords, id: string, subject: string): void {
  const owner = records.ownerOf(id);
  if (owner !== undefined) throw ownedBy(owner, subject);
}

/** The refusal of a change to what stands in the file. */
export function ownedBy(owner: string, subject: string): GatewayError {
  return new GatewayError('resource_conflict', `${subject} is owned by ${owner}; change it there.`);
}

/** Throws `already_exists` when the file owns such a record. `subject`: `A key named "batch"`. */
export function refuseTwin(
  records: FileRecords,
  twin: { readonly id: string } | undefined,
  subject: string,
): void {
  if (twin === undefined) return;
  throw new GatewayError(
    'already_exists',
    `${subject} is owned by ${records.ownerOf(twin.id) ?? 'the configuration'}; choose another name.`,
  );
}
