import { describe } from 'node:test';
import type { Runtime } from '../kit/runtimes.ts';
import { describeDifferences } from './differences.ts';
import { describeLife } from './life.ts';
import { describeMcp } from './mcp.ts';
import { describeServing } from './serving.ts';
import { describeWebSocket } from './websocket.ts';

/** What the gateway promises on every runtime, seen from outside, and where this runtime differs (docs/runtimes.md). */
export function describeRuntime(runtime: Runtime): void {
  describe(`the gateway on ${runtime}`, { timeout: 300_000 }, () => {
    describeServing(runtime);
    describeWebSocket(runtime);
    describeMcp(runtime);
    describeLife(runtime);
    describeDifferences(runtime);
  });
}
