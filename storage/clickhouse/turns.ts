/** Places of what waits in turns, from the widest circle to the narrowest: organisation, workspace, key. */
export type TurnPath = readonly string[];

/** Something that waits for its turn. */
export interface Waiting {
  readonly path: TurnPath;
}

/**
 * What waits, in circles within circles: organisations take turns, the workspaces of each, and the keys of these. One that
 * asks much waits behind itself, not others behind it.
 */
export class Turns<W extends Waiting> {
  /** By name, the one whose turn is next first; none is empty. */
  readonly #circles = new Map<string, Turns<W>>();
  /** Of the narrowest circle alone. */
  readonly #own: W[] = [];
  readonly #depth: number;
  #size = 0;

  constructor(depth = 0) {
    this.#depth = depth;
  }

  get size(): number {
    return this.#size;
  }

  add(one: W): void {
    this.#size += 1;
    const name = one.path[this.#depth];
    if (name === undefined) return void this.#own.push(one);
    let circle = this.#circles.get(name);
    if (circle === undefined) this.#circles.set(name, (circle = new Turns(this.#depth + 1)));
    circle.add(one);
  }

  /** False when it does not wait here. */
  remove(one: W): boolean {
    const name = one.path[this.#depth];
    if (name === undefined) {
      const place = this.#own.indexOf(one);
      if (place === -1) return false;
      this.#own.splice(place, 1);
    } else {
      const circle = this.#circles.get(name);
      if (circle?.remove(one) !== true) return false;
      if (circle.size === 0) this.#circles.delete(name);
    }
    this.#size -= 1;
    return true;
  }

  /** Takes out the one whose turn it is, of those that may go; its circles stand last then. */
  next(may: (one: W) => boolean): W | undefined {
    const [first] = this.#own;
    if (first !== undefined) {
      if (!may(first)) return undefined;
      this.#own.shift();
      this.#size -= 1;
      return first;
    }
    for (const [name, circle] of this.#circles) {
      const found = circle.next(may);
      if (found === undefined) continue;
      this.#circles.delete(name);
      if (circle.size > 0) this.#circles.set(name, circle);
      this.#size -= 1;
      return found;
    }
    return undefined;
  }

  /**
   * The one that gives way to another of this path: the last of the largest circle, where that is larger than the other's
   * own would become. The widest circle in which there is one decides. Undefined: the other has its share already.
   */
  givesWayTo(path: TurnPath): W | undefined {
    const name = path[this.#depth];
    if (name === undefined) return undefined;
    const own = this.#circles.get(name);
    const largest = this.#largest();
    if (largest !== undefined && largest !== own && largest.size > (own?.size ?? 0) + 1)
      return largest.#last();
    return own?.givesWayTo(path);
  }

  /** Of several that are as large the one that came last. */
  #largest(): Turns<W> | undefined {
    let largest: Turns<W> | undefined;
    for (const circle of this.#circles.values())
      if (largest === undefined || circle.size >= largest.size) largest = circle;
    return largest;
  }

  #last(): W | undefined {
    const largest = this.#largest();
    return largest === undefined ? this.#own.at(-1) : largest.#last();
  }
}
