import type { Clock } from '../../ports/clock.ts';
import type { AuditRecord, Resources } from '../../ports/resources.ts';
import type { SecretBox } from '../../ports/secret-managers.ts';
import type { StorePlace } from './command-arguments.ts';

/** A store, and the keys of its secrets. */
export interface KeyRotation {
  readonly resources: Resources;
  /** Seals with the present key, and opens what older ones sealed. */
  readonly box: SecretBox;
  /** Ends the use of older keys, when nothing is sealed with them any more; a sentence about it. */
  finish(): Promise<string>;
}

/** What `weir rotate-secrets` needs from outside. */
export interface RotationTools {
  /**
   * Opens the store and its keys; a key file gets a new key, unless a rotation before was cut short. Rejects with a
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

/** What these commands need from outside. Everything rejects with an error whose message is for the operator. */
export interface AdministrationTools extends Pick<RotationTools, 'atKeys'> {
  /**
   * Opens the store of the configuration, and closes it when `use` has settled. An embedded store that is not there is
   * refused, unless it may be new.
   */
  atStore(
    place: StorePlace & { readonly mayBeNew?: boolean },
    use: (resources: Resources) => Promise<number>,
  ): Promise<number>;
  /** The keys of a gateway with this data folder, for the secrets of imported records. */
  secretBox(place: StorePlace): Promise<SecretBox>;
  /** The place before the first record of every chain. */
  readonly chainStart: ChainPlace;
  /** Whether these are the records that were appended after `previous`; the first that is not, and why. */
  verifyChain(
    records: readonly AuditRecord[],
    previous: ChainPlace,
  ): { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };
  readonly clock: Pick<Clock, 'now'>;
  print(text: string): void;
  complain(text: string): void;
}
