import { checkNodeFlags } from './check-dockerfile.ts';

/** Context of checking a systemd unit. */
interface UnitContext {
  readonly text: string;
  /** Time limit of the gateway's end, seconds. */
  readonly stopSeconds: number;
  /** Required flags of Node. */
  readonly nodeFlags: readonly string[];
}

const known = new Set(['Unit', 'Service', 'Install']);
/** Settings that the service promises and must keep. */
const required: readonly [key: string, pattern: RegExp][] = [
  ['User', /^(?!root$|0$)\S+$/],
  ['ProtectSystem', /^strict$/],
  ['StateDirectory', /^\S+$/],
  ['NoNewPrivileges', /^yes$/],
  ['CapabilityBoundingSet', /^$/],
  ['Restart', /^on-failure$/],
  ['WatchdogSec', /^[1-9]\d+$/],
  ['NotifyAccess', /^all$/],
  ['KillSignal', /^SIGTERM$/],
  ['KillMode', /^mixed$/],
  ['MemoryDenyWriteExecute', /^no$/],
  ['LimitNOFILE', /^[1-9]\d{4,}$/],
  ['ExecStart', /^\/\S+/],
];

/** All faults of the unit. */
export function checkUnit({ text, stopSeconds, nodeFlags }: UnitContext): string[] {
  const problems: string[] = [];
  const values = new Map<string, string>();
  let section = '';
  text.split('\n').forEach((line, index) => {
    const place = `deploy/weir.service:${index + 1}`;
    if (/^\s*([#;]|$)/.test(line)) return;
    const header = /^\[(\w+)\]$/.exec(line)?.[1];
    const [, key, value = ''] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (header !== undefined) {
      section = header;
      if (!known.has(header)) problems.push(`${place}: there is no section [${header}]`);
    } else if (key === undefined) problems.push(`${place}: this is neither a section nor Key=value`);
    else if (section === 'Service') values.set(key, value.trim());
  });
  for (const [key, pattern] of required) {
    const value = values.get(key);
    if (value === undefined || !pattern.test(value))
      problems.push(
        `deploy/weir.service: ${key}=${value ?? ' is missing'}; it must match ${String(pattern)}`,
      );
  }
  if (Number(values.get('TimeoutStopSec')) >= stopSeconds === false)
    problems.push(`deploy/weir.service: TimeoutStopSec must be ${stopSeconds} at least`);
  const words = (values.get('ExecStart') ?? '').split(/\s+/);
  return [
    ...problems,
    ...checkNodeFlags(words, nodeFlags).map((problem) => `deploy/weir.service: ${problem}`),
  ];
}
