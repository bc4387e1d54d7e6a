// Composition root: questions of a command to a gateway that runs.
import type { GatewayPlace } from '../core/administration/cli/change-arguments.ts';
import { isJsonObject } from '../core/base/json.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { messageOf } from '../core/errors/gateway-error.ts';
import { setTimeout as pause } from 'node:timers/promises';
import type { ApplyTools } from '../core/administration/cli/apply-command.ts';
import { formatProblem } from '../core/config/problem.ts';
import { type ToolParts, untilInterrupted } from './command-tools.ts';

/** Where a gateway answers, and the key to ask it with. */
export interface GatewayAddress {
  /** With its base path. */
  readonly url: string;
  readonly key: string;
  /** Name of the header of service keys. */
  readonly header: string;
}

const answerMs = 60_000;

/** The address of a command's gateway. Throws a sentence when it has no key for it. */
export function gatewayAddress(
  { url, key }: GatewayPlace,
  { server: { host, port, base_path: base, header_prefix: prefix } }: GatewayConfig,
): GatewayAddress {
  if (key === undefined)
    throw new Error(
      "A running gateway has to be asked for this. Give an owner's key of it: --key, or WEIR_ADMIN_KEY.",
    );
  const isAnywhere = host === '0.0.0.0' || host === '::';
  const name = isAnywhere ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  const own = `http://${name}:${port}${base === '/' ? '' : base}`;
  return { url: (url ?? own).replace(/\/+$/, ''), key, header: `${prefix}-api-key` };
}

/** Asks the gateway; resolves to the JSON of its answer. Rejects with one sentence, that of the gateway where it refuses. */
export async function askGateway(
  { url, key, header }: GatewayAddress,
  method: 'GET' | 'POST' | 'DELETE',
  place: string,
  body?: unknown,
): Promise<unknown> {
  let answer: Response;
  try {
    answer = await fetch(url + place, {
      method,
      headers: { [header]: key, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(answerMs),
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new Error(
      `No gateway answers at ${url}: ${messageOf(cause)}. Start it, or name its address with --url.`,
      {
        cause: error,
      },
    );
  }
  const text = await answer.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (answer.ok) return value;
  throw new Error(
    `The gateway at ${url} refuses ${method} ${place.split('?')[0] ?? ''} with ${answer.status}: ${reasonIn(value) ?? text.slice(0, 200)}`,
  );
}

/** The sentence of a refusal, and each of its faults in a line of its own. Undefined for an answer of somebody else. */
function reasonIn(value: unknown): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const { error, data, errors } = value;
  const told = isJsonObject(error) ? error : data;
  if (!isJsonObject(told) || typeof told['message'] !== 'string') return undefined;
  const faults = Array.isArray(errors) ? (errors as unknown[]) : [];
  const lines = faults.flatMap((one) =>
    isJsonObject(one) && typeof one['message'] === 'string' ? [one['message']] : [],
  );
  return [told['message'], ...lines].join('\n');
}

/** The tools of `runApplyCommand` (`weir apply`). */
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
