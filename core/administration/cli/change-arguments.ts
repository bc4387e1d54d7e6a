import { parseArgs } from 'node:util';
import { quoted } from '../../base/did-you-mean.ts';

/** A gateway that runs, and an owner's key for it. */
export interface GatewayPlace {
  /** Its address with its base path; undefined: the one of the configuration, on this machine. */
  readonly url: string | undefined;
  readonly key: string | undefined;
}

/** `weir plan`. */
export interface PlanCommand extends GatewayPlace {
  readonly name: 'plan';
  /** The new configuration. */
  readonly config: string;
  /** The configuration in use; undefined for the default one. */
  readonly current: string | undefined;
  readonly data: string;
  readonly sinceMs: number;
  /** Most requests, the newest ones. */
  readonly limit: number;
  readonly format: 'text' | 'json';
}

const maxRequests = 100_000;

const planUsage = `weir plan: shows what a new configuration changes for recorded requests, without sending any

  weir plan --config NEW [--current FILE] [--since 1h] [--limit N] [--format text|json]
            [--data DIR] [--url URL] [--key KEY]

  Runs the newest recorded requests through the current and the new configuration, and compares: the provider and model
  that would be asked, refusals, parameters, and the price of the recorded tokens. Nothing is sent to anybody: providers
  are played, and guardrails that ask a service are listed as not asked.

  --config    the new configuration
  --current   the configuration in use (default: WEIR_CONFIG, else gateway.config.yaml)
  --since     how far back: 30m, 6h, 2d (default 1h)
  --limit     most requests, the newest ones (default 10000, at most ${maxRequests})
  --data      the data folder with the journal and the embedded store (default: WEIR_DATA, else data)
  --url, --key  read the log of a running gateway instead: its address (default: that of --current on this machine) and
              an owner's key (default: WEIR_ADMIN_KEY). Needed while a gateway uses the embedded store

  Ends with 0 if nothing changes, with 3 if something does, and with 1 if it cannot tell. See docs/safe-change.md.`;

interface Defaults {
  readonly data: string;
  readonly config: string | undefined;
  readonly key: string | undefined;
}

function readPlanArguments(args: readonly string[], defaults: Defaults): PlanCommand {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ config: text, current: text, since: text, limit: text, format: text },
      ...{ data: text, url: text, key: text },
    },
  });
  const { config, format = 'text' } = values;
  if (!config) throw new Error('weir plan needs --config: the new configuration.');
  if (format !== 'text' && format !== 'json')
    throw new Error(`--format is ${quoted(format)}: it is text or json.`);
  return {
    ...{ name: 'plan', config, format, url: values.url, key: values.key ?? defaults.key },
    current: values.current ?? defaults.config,
    data: values.data ?? defaults.data,
    sinceMs: durationArgument('since', values.since ?? '1h'),
    limit: limitOf(values.limit),
  };
}

function limitOf(text = '10000'): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > maxRequests)
    throw new Error(`--limit is ${quoted(text)}, and no number from 1 to ${maxRequests}.`);
  return limit;
}

const unitsMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time such as `90s`, `5m`, `2h` or `7d`, in milliseconds. Throws the reason for anything else. */
function durationArgument(name: string, text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(digits) * (unitsMs[unit] ?? 0);
  if (ms > 0) return ms;
  throw new Error(`--${name} is ${quoted(text)}, and no time such as 90s, 5m, 2h or 7d.`);
}

/** `weir apply`. */
export interface ApplyCommand extends GatewayPlace {
  readonly name: 'apply';
  /** The new configuration. */
  readonly config: string;
  readonly current: string | undefined;
  /** Rules that replace those of the file. */
  readonly rules: { readonly share?: number; readonly duration_s?: number; readonly min_requests?: number };
}

const applyUsage = `weir apply: lets a new configuration serve a share of the requests, and keeps it or takes it back

  weir apply --config NEW [--canary 10%] [--for 5m] [--min-requests N] [--url URL] [--key KEY] [--current FILE]

  Asks a running gateway, and shows the canary until it ends: the file of the gateway has the new text then, or the old
  configuration serves on because answers failed, were refused or took longer. Ctrl-C aborts it. The text is written to
  the gateway's own file, so that relative paths in it start there. Needs management: { config_writes: true }.

  --config        the new configuration
  --canary        largest share of the requests (default: changes.canary.share of the gateway, 10 %)
  --for           how long it is watched: 90s, 5m, 1h (default: changes.canary.duration_s, 5m)
  --min-requests  requests that it has to serve (default: changes.canary.min_requests, 20)
  --url, --key    the gateway (default: that of --current on this machine) and an owner's key (default: WEIR_ADMIN_KEY)
  --current       a file that says where the gateway listens (default: WEIR_CONFIG, else gateway.config.yaml)

  Ends with 0 when it is the configuration, with 3 when it was taken back, and with 1 when it could not be tried. See
  docs/safe-change.md.`;

function readApplyArguments(args: readonly string[], defaults: Defaults): ApplyCommand {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ config: text, current: text, canary: text, for: text, url: text, key: text },
      'min-requests': text,
    },
  });
  const { config, canary, for: time, 'min-requests': least } = values;
  if (!config) throw new Error('weir apply needs --config: the new configuration.');
  const [, share] = canary === undefined ? [] : (/^(\d{1,2}(?:\.\d{1,3})?)\s*%?$/.exec(canary) ?? []);
  if (canary !== undefined && !(Number(share) > 0 && Number(share) <= 50))
    throw new Error(`--canary is ${quoted(canary)}, and no share above 0 % and up to 50 %, such as 10%.`);
  if (least !== undefined && !/^\d{1,6}$/.test(least))
    throw new Error(`--min-requests is ${quoted(least)}, and no number of requests.`);
  return {
    ...{ name: 'apply', config, url: values.url, key: values.key ?? defaults.key },
    current: values.current ?? defaults.config,
    rules: {
      ...(share !== undefined && { share: Number(share) }),
      ...(time !== undefined && { duration_s: Math.ceil(durationArgument('for', time) / 1000) }),
      ...(least !== undefined && { min_requests: Number(least) }),
    },
  };
}

/** The help of each command, and the reader of its arguments, which throws the reason for unclear input. */
export const changeCommands = {
  plan: { usage: planUsage, read: readPlanArguments },
  apply: { usage: applyUsage, read: readApplyArguments },
};
