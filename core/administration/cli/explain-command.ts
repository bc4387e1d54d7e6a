import type { LoadResult } from '../../config/load-config.ts';
import { formatProblem, isError, type Problem } from '../../config/problem.ts';
import { readText } from '../../config/read-file.ts';
import type { GatewayConfig } from '../../config/schema.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { OfflinePlan } from '../../routing/explain/offline-plan.ts';
import { readRequestFile, type RequestFile } from '../../routing/explain/request-file.ts';
import type { CompiledConfig } from '../../routing/plan/plan-node.ts';
import type { ExplainCommand } from './explain-arguments.ts';
import { findConfig } from './explain-config.ts';
import { explainJson, explainText } from './explain-report.ts';

/** What `runExplainCommand` needs from outside. */
export interface ExplainTools {
  /** The file that is named, or the usual one. */
  configFile(named: string | undefined): string;
  load(file: string): Promise<LoadResult>;
  /** Rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
  /** Works out the plan. Throws a `GatewayError` for a request that cannot be used. */
  plan(request: RequestFile, config: CompiledConfig, gateway: GatewayConfig): Promise<OfflinePlan>;
  print(text: string): void;
  complain(text: string): void;
}

/** Largest request file, in bytes. */
const maxRequestBytes = 64 * 1024 * 1024;

/** Runs `weir explain …` and resolves to its exit code: 0, or 1 when something cannot be used. */
export async function runExplainCommand(command: ExplainCommand, tools: ExplainTools): Promise<number> {
  const loaded = await tools.load(tools.configFile(command.file));
  if (!loaded.ok) return report(loaded.problems, tools);
  const found = await findConfig(command.config, { loaded, providerNames: tools.providerNames });
  report(found.problems, tools);
  if (found.config === undefined) return 1;
  const request = await readRequest(command.request);
  if (typeof request === 'string') {
    tools.complain(`${command.request}: ${request}`);
    return 1;
  }
  try {
    const plan = await tools.plan(request, found.config, loaded.config);
    tools.print((command.json ? explainJson : explainText)(plan));
    return 0;
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    tools.complain(`${command.request}: ${error.status} ${error.code}: ${error.message}`);
    return 1;
  }
}

async function readRequest(file: string): Promise<RequestFile | string> {
  const read = await readText(file, maxRequestBytes);
  if (!read.ok) return read.message;
  try {
    return readRequestFile(read.text);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function report(problems: readonly Problem[], { complain }: ExplainTools): number {
  for (const problem of problems) complain(formatProblem(problem));
  return problems.some(isError) ? 1 : 0;
}
