import type { OrganisationBlock } from '../config/organisation-schema.ts';
import type { Clock } from '../ports/clock.ts';
import { fileRecordsOf, type FileRecords, type FileRecordsPlace } from './file-records.ts';

type Block = OrganisationBlock | undefined;

/** The records of the configuration that serves: after a reload, those of the new one. */
export class FileRecordsInUse {
  readonly #recordsOf: (block: Block) => FileRecords;
  #serving: () => Block;
  #block: Block;
  #records: FileRecords;
  #changed: (records: FileRecords) => void = () => undefined;

  /** `first` is the block of the configuration that the process starts with. */
  constructor(first: Block, place: FileRecordsPlace, clock: Pick<Clock, 'now'>) {
    this.#recordsOf = fileRecordsOf(place, clock);
    this.#serving = () => first;
    this.#block = first;
    this.#records = this.#recordsOf(first);
  }

  // Handed on by itself.
  readonly current = (): FileRecords => {
    const block = this.#serving();
    if (block !== this.#block) {
      this.#block = block;
      this.#records = this.#recordsOf(block);
      this.#changed(this.#records);
    }
    return this.#records;
  };

  /** From now on those of the block that this gives. */
  follow(serving: () => Block): void {
    this.#serving = serving;
  }

  /** Works the records of a block out before it serves, so that no request waits for it. */
  prepare(block: Block): void {
    this.#recordsOf(block);
  }

  /** Calls `changed` with the present records, and with others as soon as somebody has asked for them. */
  onChange(changed: (records: FileRecords) => void): void {
    this.#changed = changed;
    changed(this.current());
  }
}
