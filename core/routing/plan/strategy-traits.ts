import type { StrategyMode } from './plan-node.ts';

/** Whether a target of weight 0 is left out. */
export function usesWeights(mode: StrategyMode): boolean {
  return (
    mode === 'loadbalance' || mode === 'round-robin' || mode === 'least-latency' || mode === 'least-cost'
  );
}

/** Whether a request has its one target, with no other behind it. */
export function namesTarget(mode: StrategyMode): boolean {
  return mode === 'single' || mode === 'conditional';
}

/** Whether targets with an open breaker are left out; one that is named is taken, open or not. */
export function usesBreakers(mode: StrategyMode): boolean {
  return !namesTarget(mode);
}
