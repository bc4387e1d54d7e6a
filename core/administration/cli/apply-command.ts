import { isJsonObject } from '../../base/json.ts';
import { maxConfigFileBytes, readText } from '../../config/read-file.ts';
import { messageOf } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ApplyCommand } from './change-arguments.ts';

/** A gateway that runs. */
interface AskedGateway {
  /** Resolves to the JSON of the answer; rejects with one sentence. */
  ask(method: 'GET' | 'POST' | 'DELETE', place: string, body?: unknown): Promise<unknown>;
}

/** Outside dependencies of `runApplyCommand`. */
export interface ApplyTools {
  readonly clock: Pick<Clock, 'now'>;
  /** The gateway of the command. Rejects with one sentence. */
  gateway(command: ApplyCommand): Promise<AskedGateway>;
  /** Resolves after some milliseconds; keeps the process alive. */
  pause(ms: number): Promise<void>;
  /** Aborts when the operator interrupts; a second interrupt ends the process at once. */
  untilInterrupted<T>(use: (stop: AbortSignal) => Promise<T>): Promise<T>;
  print(text: string): void;
  complain(text: string): void;
}

const place = '/admin/config-file';
const canary = `${place}/canary`;
const lookMs = 500;
const tellMs = 5000;
/** Exit code of a configuration that was taken back. */
const revertedCode = 3;

/** Runs `weir apply`. Resolves to its exit code: 0 when it is the configuration, 3 when it was taken back, else 1. */
export async function runApplyCommand(command: ApplyCommand, tools: ApplyTools): Promise<number> {
  try {
    const read = await readText(command.config, maxConfigFileBytes);
    if (!read.ok) throw new Error(`${command.config}: ${read.message}`);
    const gateway = await tools.gateway(command);
    const file = await gateway.ask('GET', place);
    if (!isJsonObject(file) || file['writes'] !== true)
      throw new Error(
        'The gateway does not let its configuration be written: set the option of the plugin, management: { config_writes: true }.',
      );
    const draft = { text: read.text, version: file['version'], ...command.rules };
    let state = readState(await gateway.ask('POST', canary, draft));
    tools.print(
      `The new configuration serves a share of the requests, up to ${state.rules.share} %, for ${state.rules.duration_s} s.`,
    );
    state = await tools.untilInterrupted((stop) => watch(state, { gateway, tools, stop }));
    tools.print(`${state.phase}: ${state.reason}`);
    tools.print(`${figuresText('before', state.before)}\n${figuresText('new', state.after)}`);
    return state.phase === 'completed' ? 0 : revertedCode;
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

async function watch(
  first: Shown,
  { gateway, tools, stop }: { gateway: AskedGateway; tools: ApplyTools; stop: AbortSignal },
): Promise<Shown> {
  let state = first;
  let told = 0;
  while (state.phase === 'running') {
    if (stop.aborted) return readState(await gateway.ask('DELETE', canary));
    if (tools.clock.now() - told >= tellMs) {
      told = tools.clock.now();
      const left = Math.max(0, Math.round((state.endsAt - told) / 1000));
      tools.print(
        `${state.share} %, ${left} s left  ${figuresText('before', state.before)}  ${figuresText('new', state.after)}`,
      );
    }
    await tools.pause(lookMs);
    const next = readState(await gateway.ask('GET', canary));
    if (next.id !== first.id)
      throw new Error(
        'The gateway knows nothing of this canary any more: it was restarted, or another one has begun.',
      );
    state = next;
  }
  return state;
}

interface Figures {
  readonly requests: number;
  readonly errors: number;
  readonly refusals: number;
  readonly median: number | undefined;
}

interface Shown {
  readonly id: string;
  readonly phase: string;
  readonly reason: string;
  readonly share: number;
  readonly endsAt: number;
  readonly rules: { readonly share: number; readonly duration_s: number };
  readonly before: Figures;
  readonly after: Figures;
}

function readState(answer: unknown): Shown {
  const shown = isJsonObject(answer) ? answer['canary'] : undefined;
  if (!isJsonObject(shown)) throw new Error('The gateway knows of no canary: it was restarted meanwhile.');
  const { id, phase, reason, share, ends_at: ends, rules, before, after } = shown;
  const limits = isJsonObject(rules) ? rules : {};
  return {
    ...{ id: textOf(id), phase: textOf(phase), reason: textOf(reason), share: Number(share) },
    endsAt: Date.parse(textOf(ends)),
    rules: { share: Number(limits['share']), duration_s: Number(limits['duration_s']) },
    before: figuresOf(before),
    after: figuresOf(after),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function figuresOf(value: unknown): Figures {
  const { requests, errors, refusals, median_ms: median } = isJsonObject(value) ? value : {};
  return {
    ...{ requests: Number(requests), errors: Number(errors), refusals: Number(refusals) },
    median: typeof median === 'number' ? median : undefined,
  };
}

function figuresText(name: string, { requests, errors, refusals, median }: Figures): string {
  const time = median === undefined ? '' : `, median ${Math.round(median)} ms`;
  return `${name}: ${requests} requests, ${errors} failed, ${refusals} refused${time}`;
}
