import { GatewayError } from '../../errors/gateway-error.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { Clock } from '../../ports/clock.ts';
import type { PlanLeaf } from '../plan/plan-node.ts';
import type { TryResult } from './try-result.ts';

/** One of the tries that run at once. */
export interface Contender {
  readonly leaf: PlanLeaf;
  readonly fork: Exchange;
  readonly startedAt: number;
  /** Never rejects. */
  readonly result: Promise<TryResult>;
}

export interface RaceSetup {
  readonly clock: Clock;
  /** How long the latest try may be without an answer before the next one is started beside it. */
  readonly afterMs: number;
  start(leaf: PlanLeaf): Contender;
  /** An answer came after the race was over. */
  tooLate(result: TryResult): void;
}

export interface RaceResult {
  readonly winner: TryResult;
  /** Those that were broken off. */
  readonly losers: readonly Contender[];
  /** All that were started. */
  readonly started: readonly Contender[];
}

/** Why the tries end that did not win. */
export const lostRace = new GatewayError('client_closed', 'Another try answered first.');

/**
 * Starts the first target, and each of the others when those before it have brought nothing for a while or have all
 * failed. The first good answer, or failure that no other target mends, wins; else the last failure does.
 */
export function race(leaves: readonly PlanLeaf[], setup: RaceSetup): Promise<RaceResult> {
  return new Promise((resolve) => new Race(leaves, setup, resolve).next());
}

class Race {
  private readonly leaves: readonly PlanLeaf[];
  private readonly setup: RaceSetup;
  private readonly resolve: (result: RaceResult) => void;
  private readonly started: Contender[] = [];
  private readonly running = new Set<Contender>();
  private stopTimer: (() => void) | undefined;
  private over = false;

  constructor(leaves: readonly PlanLeaf[], setup: RaceSetup, resolve: (result: RaceResult) => void) {
    this.leaves = leaves;
    this.setup = setup;
    this.resolve = resolve;
  }

  next(): void {
    this.stopTimer?.();
    const { leaves, started, setup } = this;
    const contender = setup.start(leaves[started.length] as PlanLeaf);
    started.push(contender);
    this.running.add(contender);
    void contender.result.then((result) => this.ended(contender, result));
    if (started.length < leaves.length) this.stopTimer = setup.clock.after(setup.afterMs, () => this.next());
  }

  private ended(contender: Contender, result: TryResult): void {
    this.running.delete(contender);
    if (this.over) return this.setup.tooLate(result);
    const isGood = result.status >= 200 && result.status <= 299;
    if (isGood || result.final) return this.finish(result);
    if (this.started.length < this.leaves.length) this.next();
    else if (this.running.size === 0) this.finish(result);
  }

  private finish(winner: TryResult): void {
    this.over = true;
    this.stopTimer?.();
    const losers = [...this.running];
    this.resolve({ winner, losers, started: this.started });
    for (const { fork } of losers) {
      fork.failure = lostRace;
      fork.abort();
    }
  }
}
