import { randomInt } from 'node:crypto';

/** A record fills a cache line: 16 words of 32 bits, or 8 numbers. The last two numbers are unused. */
const wordsPerRecord = 16;
const numbersPerRecord = 8;
const recordBytes = 64;

/** Words of a record. */
const hashWord = 0;
const newerWord = 1;
const olderWord = 2;
const keyLengthWord = 3;
const lengthWord = 4;

/** Numbers of a record, behind the words. */
const placeNumber = 3;
const storedAtNumber = 4;
const expiresAtNumber = 5;

const minCapacity = 8;
/** Index slots per record; at least half of them are free, so that a search is short. */
const placesPerRecord = 2;
const wordsPerPlace = 2;

/** Compares keys of entries, which the table itself does not hold. */
export interface KeyOwner {
  /** True when the entry has this key. Called for equal hashes, which nearly always means yes. */
  isKey(entry: number, key: string): boolean;
}

/**
 * Entries of a cache by key, in order of last use, in memory that the garbage collector does not scan: a cache of tens
 * of thousands of answers is cold, and each object or `Map` slot fetched from memory costs more than all computation
 * here. An entry is a number from 1 on, and 0 is none.
 */
export class EntryTable {
  readonly #owner: KeyOwner;
  /** Prevents callers from choosing keys that share one slot. */
  readonly #seed = randomInt(0x7fff_ffff);
  #capacity = 0;
  #words = new Int32Array(0);
  #numbers = new Float64Array(0);
  /** Pairs of a hash and an entry. Linear probing from the slot of the hash, up to a slot without an entry. */
  #index = new Int32Array(0);
  /** Records in use or used before; those behind are untouched. */
  #used = 0;
  /** Free list below that, linked through `newer`. */
  #free = 0;
  #count = 0;
  #newest = 0;
  #oldest = 0;

  constructor(owner: KeyOwner) {
    this.#owner = owner;
    this.#grow(minCapacity);
  }

  /** Number of entries. */
  get count(): number {
    return this.#count;
  }

  /** Allocated memory. It grows with the entries and does not shrink. */
  get bytes(): number {
    return this.#words.byteLength + this.#index.byteLength;
  }

  /** The least recently used entry. */
  get oldest(): number {
    return this.#oldest;
  }

  find(key: string): number {
    const hash = this.#hash(key);
    const index = this.#index;
    const mask = index.length - 1;
    for (let at = this.#home(hash); ; at = (at + wordsPerPlace) & mask) {
      const entry = index[at + 1] as number;
      if (entry === 0) return 0;
      if (index[at] === hash && this.#owner.isKey(entry, key)) return entry;
    }
  }

  /** Adds an entry as the most recently used. No entry with this key may exist. */
  add(key: string, length: number, place: number, storedAt: number, expiresAt: number): number {
    const entry = this.#take();
    const hash = this.#hash(key);
    const word = entry * wordsPerRecord;
    this.#words[word + hashWord] = hash;
    this.#words[word + keyLengthWord] = key.length;
    this.#words[word + lengthWord] = length;
    const number = entry * numbersPerRecord;
    this.#numbers[number + placeNumber] = place;
    this.#numbers[number + storedAtNumber] = storedAt;
    this.#numbers[number + expiresAtNumber] = expiresAt;
    this.#enter(hash, entry);
    this.#link(entry);
    this.#count += 1;
    return entry;
  }

  /** Makes the entry the most recently used. */
  touch(entry: number): void {
    if (entry === this.#newest) return;
    this.#unlink(entry);
    this.#link(entry);
  }

  remove(entry: number): void {
    this.#leave(entry);
    this.#unlink(entry);
    this.#words[entry * wordsPerRecord + newerWord] = this.#free;
    this.#free = entry;
    this.#count -= 1;
  }

  /** Length of the key, in UTF-16 units. */
  keyLength(entry: number): number {
    return this.#words[entry * wordsPerRecord + keyLengthWord] as number;
  }

  /** Length of the value, in bytes. */
  length(entry: number): number {
    return this.#words[entry * wordsPerRecord + lengthWord] as number;
  }

  /** Position of key and value. */
  place(entry: number): number {
    return this.#numbers[entry * numbersPerRecord + placeNumber] as number;
  }

  setPlace(entry: number, place: number): void {
    this.#numbers[entry * numbersPerRecord + placeNumber] = place;
  }

  /** Milliseconds since the epoch. */
  storedAt(entry: number): number {
    return this.#numbers[entry * numbersPerRecord + storedAtNumber] as number;
  }

  /** Milliseconds since the epoch. */
  expiresAt(entry: number): number {
    return this.#numbers[entry * numbersPerRecord + expiresAtNumber] as number;
  }

  #hash(key: string): number {
    let hash = this.#seed;
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x0100_0193);
    // The lower bits of a product do not depend on the upper bits of its factors.
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d);
    return hash ^ (hash >>> 13);
  }

  #home(hash: number): number {
    return (hash * wordsPerPlace) & (this.#index.length - 1);
  }

  #enter(hash: number, entry: number): void {
    const index = this.#index;
    const mask = index.length - 1;
    let at = this.#home(hash);
    while (index[at + 1] !== 0) at = (at + wordsPerPlace) & mask;
    index[at] = hash;
    index[at + 1] = entry;
  }

  #leave(entry: number): void {
    const index = this.#index;
    const mask = index.length - 1;
    let at = this.#home(this.#words[entry * wordsPerRecord + hashWord] as number);
    while (index[at + 1] !== entry) at = (at + wordsPerPlace) & mask;
    // Later entries move up where they would otherwise become unreachable.
    for (
      let next = (at + wordsPerPlace) & mask;
      index[next + 1] !== 0;
      next = (next + wordsPerPlace) & mask
    ) {
      const hash = index[next] as number;
      if (((next - this.#home(hash)) & mask) < ((next - at) & mask)) continue;
      index[at] = hash;
      index[at + 1] = index[next + 1] as number;
      at = next;
    }
    index[at + 1] = 0;
  }

  #link(entry: number): void {
    const words = this.#words;
    const newest = this.#newest;
    words[entry * wordsPerRecord + newerWord] = 0;
    words[entry * wordsPerRecord + olderWord] = newest;
    if (newest === 0) this.#oldest = entry;
    else words[newest * wordsPerRecord + newerWord] = entry;
    this.#newest = entry;
  }

  #unlink(entry: number): void {
    const words = this.#words;
    const newer = words[entry * wordsPerRecord + newerWord] as number;
    const older = words[entry * wordsPerRecord + olderWord] as number;
    if (newer === 0) this.#newest = older;
    else words[newer * wordsPerRecord + olderWord] = older;
    if (older === 0) this.#oldest = newer;
    else words[older * wordsPerRecord + newerWord] = newer;
  }

  #take(): number {
    const entry = this.#free;
    if (entry !== 0) {
      this.#free = this.#words[entry * wordsPerRecord + newerWord] as number;
      return entry;
    }
    if (this.#used === this.#capacity) this.#grow(2 * this.#capacity);
    return ++this.#used;
  }

  #grow(capacity: number): void {
    // Record 0 means none.
    const memory = new ArrayBuffer((capacity + 1) * recordBytes);
    const words = new Int32Array(memory);
    words.set(this.#words);
    this.#words = words;
    this.#numbers = new Float64Array(memory);
    const before = this.#index;
    this.#index = new Int32Array(capacity * placesPerRecord * wordsPerPlace);
    this.#capacity = capacity;
    for (let at = 0; at < before.length; at += wordsPerPlace) {
      if (before[at + 1] !== 0) this.#enter(before[at] as number, before[at + 1] as number);
    }
  }
}
