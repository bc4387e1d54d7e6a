// Composition root: dependencies of the command `weir explain`.
import type { ExplainTools } from '../core/administration/cli/explain-command.ts';
import type { LoadResult } from '../core/config/load-config.ts';
import { GatewayError } from '../core/errors/gateway-error.ts';
import { guardsOf } from '../core/lifecycle/offered-checks.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Transport } from '../core/ports/transport.ts';
import { Breakers } from '../core/routing/attempts/breakers.ts';
import { offlinePlan } from '../core/routing/explain/offline-plan.ts';
import { RoutingState } from '../core/routing/plan/routing-state.ts';
import { compileTargets } from '../core/routing/targets.ts';
import { createCredentialFactory } from '../adapters/credentials/index.ts';
import { dialects } from '../adapters/dialects/index.ts';
import { createPrices } from '../adapters/pricing/genai-prices.ts';
import { providerTable } from '../adapters/providers.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { builtInPlugins } from '../plugins/index.ts';
import { createMemoryCounters } from '../storage/memory/counters.ts';
import { builtIns } from './built-ins.ts';

/** The tools of `runExplainCommand`; `configFile` resolves the named file, or the default one. */
export function explainTools(parts: {
  readonly configFile: (named: string | undefined) => string;
  readonly load: (file: string) => Promise<LoadResult>;
  readonly clock: Clock;
  /** Between 0 and 1, like `Math.random` (the default): random choices between targets. */
  readonly random?: () => number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}): ExplainTools {
  const { clock, environment, random = Math.random, ...rest } = parts;
  return {
    ...rest,
    providerNames: new Set(providerTable.keys()),
    checks({ pipelines }) {
      const entries = pipelines.flatMap(({ plugins }) => plugins);
      return guardsOf(builtInPlugins, { isComplete: entries.every(({ use }) => builtIns.has(use)) });
    },
    async plan(request, config, gateway) {
      const write = (line: string): void => void process.stderr.write(line);
      const log = createLog({ level: 'warn', format: 'text', write, clock });
      const factory = createCredentialFactory({ clock, transport: noTransport, environment });
      const counters = createMemoryCounters({ clock, log });
      try {
        return await offlinePlan(request, config, {
          gateway,
          dialects,
          clock,
          known: compileTargets(gateway.providers, providerTable, {
            factory,
            headerPrefix: gateway.server.header_prefix,
          }),
          shared: {
            state: new RoutingState(clock),
            breakers: new Breakers({ counters, clock }),
            prices: createPrices({ log, own: gateway.prices.models }),
            random,
          },
        });
      } finally {
        counters.close();
      }
    },
  };
}

/** Sends nothing. */
const noTransport: Transport = {
  send() {
    throw new GatewayError('internal', 'A plan that is only explained sends nothing.');
  },
  close: () => Promise.resolve(),
};
