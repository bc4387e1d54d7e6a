/** How many times what is left one owner may have taken: alone it gets four fifths of the room, two get four ninths each. */
const most = 4;
/** Owners that are told apart; those that come later share one account. */
const mostOwners = 4096;

/**
 * Divides the last part of a room among owners that nobody knows beforehand. An owner may take as long as it has taken
 * less than four times of what is then left: whoever takes much is refused early, and there is always something left for
 * one who comes late or takes little. Knows only what was taken since the room became scarce.
 */
export class FairShares {
  private readonly taken = new Map<string, number>();
  private takenByRest = 0;

  /** Takes `size` for an owner, after which `left` is left; false when that is more than its share. */
  take(owner: string, size: number, left: number): boolean {
    const before = this.taken.get(owner);
    const isOneOfRest = before === undefined && this.taken.size >= mostOwners;
    const after = (isOneOfRest ? this.takenByRest : (before ?? 0)) + size;
    if (after > most * left) return false;
    if (isOneOfRest) this.takenByRest = after;
    else this.taken.set(owner, after);
    return true;
  }

  /** What was taken has become less, everybody's by the same factor (0 to 1). */
  shrink(factor: number): void {
    this.takenByRest *= factor;
    for (const [owner, taken] of this.taken) {
      if (taken * factor < 1) this.taken.delete(owner);
      else this.taken.set(owner, taken * factor);
    }
  }

  /** The room is no longer scarce. */
  clear(): void {
    if (this.taken.size > 0) this.taken.clear();
    this.takenByRest = 0;
  }
}
