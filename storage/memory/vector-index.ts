import type { Clock } from '../../core/ports/clock.ts';
import type { Similar, VectorBounds, VectorIndex, VectorPartition } from '../../core/ports/cache.ts';

/** Upper bound of vectors in one partition: every search compares all of them and blocks the event loop meanwhile. */
const maxPerPartition = 5000;

/** A vector index in this process, with synchronous answers. */
interface MemoryVectorIndex extends VectorIndex {
  nearest(partition: VectorPartition, vector: Float32Array, threshold: number): Similar | undefined;
  add(partition: VectorPartition, id: string, vector: Float32Array, bounds: VectorBounds): void;
  remove(partition: VectorPartition, id: string): void;
  /** Number of vectors, including expired ones that no search has met. */
  readonly size: number;
}

/** A direction: a vector of length 1. */
interface Direction {
  readonly values: Float32Array;
  /** Start and length of the part that a comparison may skip. */
  readonly headEnd: number;
  readonly tailLength: number;
}

interface Entry extends Direction {
  readonly id: string;
  readonly partition: string;
  readonly expiresAt: number;
}

/**
 * Vectors in the memory of this process: least recently used out first, bounded in number, overall and per partition
 * (5,000). A search compares exactly with every vector of the partition.
 */
export function createMemoryVectorIndex({ clock }: { readonly clock: Clock }): MemoryVectorIndex {
  return new LinearIndex(clock);
}

class LinearIndex implements MemoryVectorIndex {
  private readonly clock: Clock;
  /** Each in order of the last use of its vectors. */
  private readonly partitions = new Map<string, Map<string, Entry>>();
  /** In order of last use. */
  private readonly entries = new Set<Entry>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  get size(): number {
    return this.entries.size;
  }

  nearest(partition: VectorPartition, vector: Float32Array, threshold: number): Similar | undefined {
    const held = this.partitions.get(nameOf(partition));
    const asked = held === undefined ? undefined : direction(vector);
    if (held === undefined || asked === undefined) return undefined;
    const now = this.clock.now();
    let best: Entry | undefined;
    let similarity = threshold;
    for (const entry of held.values()) {
      if (entry.expiresAt <= now) {
        this.drop(entry);
        continue;
      }
      const found = cosine(asked, entry, similarity);
      if (found === undefined || (best !== undefined && found <= similarity)) continue;
      best = entry;
      similarity = found;
    }
    if (best === undefined) return undefined;
    held.delete(best.id);
    held.set(best.id, best);
    this.entries.delete(best);
    this.entries.add(best);
    return { id: best.id, similarity };
  }

  add(
    partition: VectorPartition,
    id: string,
    vector: Float32Array,
    { ttlMs, maxEntries }: VectorBounds,
  ): void {
    this.remove(partition, id);
    const found = direction(vector);
    if (found === undefined || !(ttlMs > 0) || maxEntries < 1) return;
    const name = nameOf(partition);
    const { values, headEnd, tailLength } = found;
    const expiresAt = this.clock.now() + ttlMs;
    const entry: Entry = { id, partition: name, values, headEnd, tailLength, expiresAt };
    let held = this.partitions.get(name);
    if (held === undefined) this.partitions.set(name, (held = new Map<string, Entry>()));
    if (held.size >= maxPerPartition) this.drop(held.values().next().value as Entry);
    this.partitions.set(name, held);
    held.set(id, entry);
    this.entries.add(entry);
    for (const oldest of this.entries) {
      if (this.entries.size <= maxEntries) break;
      this.drop(oldest);
    }
  }

  remove(partition: VectorPartition, id: string): void {
    const entry = this.partitions.get(nameOf(partition))?.get(id);
    if (entry !== undefined) this.drop(entry);
  }

  private drop(entry: Entry): void {
    this.entries.delete(entry);
    const held = this.partitions.get(entry.partition);
    held?.delete(entry.id);
    if (held?.size === 0) this.partitions.delete(entry.partition);
  }
}

function nameOf({ organisationId, digest }: VectorPartition): string {
  return `${digest}:${organisationId}`;
}

/** Undefined for a vector without a direction. */
function direction(vector: Float32Array): Direction | undefined {
  let squares = 0;
  for (const value of vector) squares += value * value;
  const length = Math.sqrt(squares);
  if (!(length > 0) || !Number.isFinite(length)) return undefined;
  const values = new Float32Array(vector.length);
  const headEnd = vector.length >> 2;
  let tail = 0;
  for (let i = 0; i < vector.length; i++) {
    const value = (vector[i] as number) / length;
    values[i] = value;
    if (i >= headEnd) tail += value * value;
  }
  return { values, headEnd, tailLength: Math.sqrt(tail) };
}

/** Rounding of 32-bit numbers must not hide an equal vector. */
const tolerance = 1e-6;

/**
 * The cosine when it is at least `least`, else undefined: the first quarter already rejects most vectors, as the rest
 * can add at most the product of the lengths of the rests.
 */
function cosine(one: Direction, other: Direction, least: number): number | undefined {
  const { values: a, headEnd } = one;
  const { values: b } = other;
  if (a.length !== b.length) return undefined;
  let product = 0;
  let i = 0;
  for (; i < headEnd; i++) product += (a[i] as number) * (b[i] as number);
  if (product + one.tailLength * other.tailLength < least - tolerance) return undefined;
  for (; i < a.length; i++) product += (a[i] as number) * (b[i] as number);
  return product < least - tolerance ? undefined : Math.min(1, product);
}
