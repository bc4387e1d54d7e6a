// Composition root: dependencies of `weir apply`.
import { setTimeout as pause } from 'node:timers/promises';
import type { ApplyTools } from '../core/administration/cli/apply-command.ts';
import { formatProblem } from '../core/config/problem.ts';
import { askGateway, gatewayAddress } from './ask-gateway.ts';
import { type ToolParts, untilInterrupted } from './command-tools.ts';

/** The tools of `runApplyCommand`. */
export function applyTools({ clock, print, complain, configFile, load }: ToolParts): ApplyTools {
  return {
    ...{ clock, print, complain, untilInterrupted },
    pause: (ms) => pause(ms),
    async gateway(command) {
      const loaded = await load(configFile(command.current));
      if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
      const address = gatewayAddress(command, loaded.config);
      return { ask: (method, place, body) => askGateway(address, method, place, body) };
    },
  };
}
