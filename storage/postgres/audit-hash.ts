import { sha256 } from '../../core/base/sha256.ts';
import type { AuditEntry, AuditRecord } from '../../core/ports/resources.ts';

/** The place before the first record of every chain. */
export const chainStart: ChainPlace = { number: 0, hash: '0'.repeat(64) };

/** A record's place in the chain of its organisation. */
export interface ChainPlace {
  /** From 1; 0 before the first record. */
  readonly number: number;
  /** SHA-256, hex. */
  readonly hash: string;
}

/** What `verifyChain` finds: the first record that is not as it was appended, and why. */
export type ChainVerdict =
  { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };

// The order is part of every stored hash: never change it, only add another version of the encoding.
const hashedFields = [
  'id',
  'organisationId',
  'workspaceId',
  'at',
  'actorType',
  'actorId',
  'actorName',
  'action',
  'resourceType',
  'resourceId',
  'method',
  'uri',
  'requestId',
  'status',
  'clientIp',
  'details',
] as const satisfies readonly (keyof AuditEntry)[];

/**
 * The hash (SHA-256, hex) of the entry as record `number`, after a record with the hash `previous`. Each field goes in
 * behind its length in bytes of UTF-8, so that no text can pass for two fields.
 */
export function auditHash(previous: string, number: number, entry: AuditEntry): string {
  let encoded = lengthPrefixed('weir-audit-1') + lengthPrefixed(previous) + lengthPrefixed(String(number));
  for (const field of hashedFields) encoded += lengthPrefixed(String(entry[field]));
  return sha256(encoded, 'hex');
}

function lengthPrefixed(text: string): string {
  return `${Buffer.byteLength(text, 'utf8')}:${text}`;
}

/**
 * Checks that the records are those that were appended right after `previous` (`chainStart` for the beginning), in
 * their order: none changed, removed, moved or added. To go on with the next page, pass the last record as `previous`.
 * Whether the newest records of a chain were cut off cannot be seen from the rest.
 */
export function verifyChain(records: readonly AuditRecord[], previous: ChainPlace): ChainVerdict {
  let last = previous;
  for (const record of records) {
    const expected = last.number + 1;
    if (record.number !== expected) {
      const reason = `record ${expected} was expected and ${record.number} is there: one was removed, moved or added`;
      return { ok: false, number: expected, reason };
    }
    if (record.hash !== auditHash(last.hash, record.number, record)) {
      const reason = `record ${record.number} does not match its hash: it, or the record before it, was changed`;
      return { ok: false, number: record.number, reason };
    }
    last = record;
  }
  return { ok: true };
}
