import type { StrategyMode } from './plan-node.ts';

/** Whether a target of weight 0 is left out. */
export function usesWeights(mode: StrategyMode): boolean {
  return (
    mode === 'loadbalance' || mode === 'round-robin' || mode === 'least-latency' || mode === 'least-cost'
  );
}

/** Whether targets with an open breaker are left out; `single` and `conditional` name their target, open or not. */
export function usesBreakers(mode: StrategyMode): boolean {
  return mode !== 'single' && mode !== 'conditional';
}
