import type { Clock } from '../../ports/clock.ts';
import { fileRecordsOf, type FileRecords, type FileRecordsPlace } from './file-records.ts';
import type { OwnedFile } from './owned-file.ts';

/** The records of the configuration that serves: after a reload, those of the new one. */
export class FileRecordsInUse {
  readonly #recordsOf: (file: OwnedFile) => FileRecords;
  #serving: () => OwnedFile;
  #config: OwnedFile['config'];
  #records: FileRecords;
  #changed: (records: FileRecords) => void = () => undefined;

  /** `first` is the configuration that the process starts with. */
  constructor(first: OwnedFile, place: FileRecordsPlace, clock: Pick<Clock, 'now'>) {
    this.#recordsOf = fileRecordsOf(place, clock);
    this.#serving = () => first;
    this.#config = first.config;
    this.#records = this.#recordsOf(first);
  }

  // Handed on by itself.
  readonly current = (): FileRecords => {
    const file = this.#serving();
    if (file.config !== this.#config) {
      this.#config = file.config;
      this.#records = this.#recordsOf(file);
      this.#changed(this.#records);
    }
    return this.#records;
  };

  /** From now on those of the configuration that this gives. */
  follow(serving: () => OwnedFile): void {
    this.#serving = serving;
  }

  /** Works the records of a configuration out before it serves, so that no request waits for it. */
  prepare(file: OwnedFile): void {
    this.#recordsOf(file);
  }

  /** Calls `changed` with the present records, and with others as soon as somebody has asked for them. */
  onChange(changed: (records: FileRecords) => void): void {
    this.#changed = changed;
    changed(this.current());
  }
}
