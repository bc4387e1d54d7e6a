import { type Budget, type ExpectedUse, wholeUnits } from '../../core/ports/budgets.ts';
import type { Window } from '../../core/ports/counters.ts';

/** One sliding window, by its definition: sixty parts, each of which counts until the last of it is as old as the window. */
export class ModelWindow {
  readonly window: Window;
  #taken: { last: number; amount: number }[] = [];

  constructor(window: Window) {
    this.window = window;
  }

  #partAt(time: number): number {
    return Math.floor((time * 60) / this.window.windowMs);
  }

  total(now: number): number {
    this.#taken = this.#taken.filter(({ last }) => last > now - this.window.windowMs);
    return this.#taken.reduce((sum, { amount }) => sum + amount, 0);
  }

  adjust(now: number, delta: number): void {
    this.total(now);
    const newest = this.#taken.at(-1);
    if (delta > 0 && newest !== undefined && this.#partAt(newest.last) === this.#partAt(now)) {
      newest.last = now;
      newest.amount += delta;
    } else if (delta > 0) this.#taken.push({ last: now, amount: delta });
    let rest = -delta;
    for (const one of this.#taken) {
      const back = Math.max(0, Math.min(one.amount, rest));
      one.amount -= back;
      rest -= back;
    }
  }
}

/** One budget by its definition. */
export class ModelBudget {
  used = 0;
  reserved = 0;
  epoch = 0;
  /** By gateway. */
  readonly usual = new Map<number, number>();

  beginAt(epoch: number): void {
    if (epoch <= this.epoch) return;
    this.epoch = epoch;
    this.used = 0;
  }

  amount(gateway: number, unit: Budget['unit'], { tokens, cost }: ExpectedUse): number {
    if (unit === 'requests') return 1;
    if (unit === 'tokens') return tokens;
    return cost === undefined ? Math.ceil(this.usual.get(gateway) ?? 0) : wholeUnits(cost, unit);
  }

  settle(gateway: number, reserved: number, used: number): void {
    this.reserved -= reserved;
    if (used <= 0) return;
    const usual = this.usual.get(gateway) ?? 0;
    this.usual.set(gateway, usual === 0 ? used : usual + (used - usual) * 0.2);
    this.used += used;
  }
}
