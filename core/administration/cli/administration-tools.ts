import type { Clock } from '../../ports/clock.ts';
import type { AuditRecord, Resources } from '../../ports/resources.ts';
import type { SecretBox } from '../../ports/secret-managers.ts';
import type { StorePlace } from './command-arguments.ts';

/** A store, and the keys of its secrets. */
export interface KeyRotation {
  readonly resources: Resources;
  /** Seals with the present key; opens what older keys sealed. */
  readonly box: SecretBox;
  /** Ends the use of older keys once no secret is sealed with them. Resolves to a sentence about it. */
  finish(): Promise<string>;
}

/** Outside dependencies of `weir rotate-secrets`. */
export interface RotationTools {
  /**
   * Opens the store and its keys; a key file gets a new key, unless the previous rotation was cut short. Rejects with a
   * sentence for the operator.
   */
  atKeys(place: StorePlace, use: (rotation: KeyRotation) => Promise<number>): Promise<number>;
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}

/** A place in an audit chain: number 0 before its first record. */
interface ChainPlace {
  readonly number: number;
  readonly hash: string;
}

/** Outside dependencies of these commands. Everything rejects with an error whose message is for the operator. */
export interface AdministrationTools extends Pick<RotationTools, 'atKeys'> {
  /**
   * Opens the store of the configuration and closes it when `use` has settled. Rejects when an embedded store does not
   * exist, unless `mayBeNew`.
   */
  atStore(
    place: StorePlace & { readonly mayBeNew?: boolean },
    use: (resources: Resources) => Promise<number>,
  ): Promise<number>;
  /** The keys of a gateway with this data folder, for the secrets of imported records. */
  secretBox(place: StorePlace): Promise<SecretBox>;
  /** The place before the first record of every chain. */
  readonly chainStart: ChainPlace;
  /** Checks that these records were appended after `previous`; gives the first one that was not, and why. */
  verifyChain(
    records: readonly AuditRecord[],
    previous: ChainPlace,
  ): { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}
