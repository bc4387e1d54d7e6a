import { type ChildProcess, spawn } from 'node:child_process';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpStdioTarget } from '../../core/ports/mcp.ts';
import { ByteStore } from '../framing/stream-payload.ts';
import { rpc, type RpcId, type RpcMessage } from './json-rpc.ts';

/** Errors of a child process. */
export const childErrors = { unreachable: childUnreachable, notReading };

const LF = 0x0a;
/** Longest message of a program: 16 MiB. */
const maxLineBytes = 16_777_216;
/** Kept of the beginning and of the end of a longer one. */
const sampleBytes = 256;
/** Most bytes that wait until the program reads them. */
const maxUnwritten = 16_777_216;
/** Longest time between SIGTERM and SIGKILL. */
const killAfterMs = 2_000;
/** Longest wait for the last output of a program that has ended, and for the end of one that has closed its output. */
const lingerMs = 1_000;

/** Receives what a program does. */
interface ChildEvents {
  message(message: RpcMessage): void;
  /** A message was too long; its id, as far as it can be seen. */
  oversized(id: RpcId | undefined): void;
  /** It has ended without having been asked to, or could not be started: the end of a sentence. Called once. */
  ended(reason: string): void;
}

/** Groups of processes that run now: a gateway that exits at once leaves none. */
const groups = new Set<number>();
process.once('exit', () => {
  for (const pid of groups) signal(pid, 'SIGKILL');
});

/** A program that speaks MCP over its standard input and output, in a group of processes of its own. */
export class StdioChild {
  /** Undefined when the system could not even try. */
  readonly #child: ChildProcess | undefined;
  readonly #log: ChildLog;
  readonly #clock: Clock;
  readonly #events: ChildEvents;
  readonly #lines = new LineReader((line) => this.#read(line));
  readonly #ended: Promise<void>;
  #resolve: () => void = () => undefined;
  #hasExited = false;
  #isStopping = false;
  #isOver = false;
  #cancelTimer: () => void = () => undefined;

  /** Starts it. `ended` tells when that fails. */
  constructor(target: McpStdioTarget, log: ChildLog, clock: Clock, events: ChildEvents) {
    this.#log = log;
    this.#clock = clock;
    this.#events = events;
    this.#ended = new Promise((resolve) => (this.#resolve = resolve));
    try {
      this.#child = this.#spawn(target);
    } catch (error) {
      queueMicrotask(() => this.#failed(error));
    }
  }

  #spawn({ command, args, env, cwd }: McpStdioTarget): ChildProcess {
    const child: ChildProcess = spawn(command, args, {
      env: { ...inheritedEnvironment(), ...env },
      ...(cwd === undefined ? {} : { cwd }),
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      windowsHide: true,
    });
    if (child.pid !== undefined) groups.add(child.pid);
    child.once('error', (error) => this.#failed(error));
    child.once('exit', (code, name) => this.#exited(name === null ? `with code ${code}` : `by ${name}`));
    // A program that reads no more is of no use; its end is told by `exit`.
    child.stdin?.on('error', () => this.#signal('SIGKILL'));
    child.stdout?.on('data', (chunk: Buffer) => this.#lines.push(chunk));
    child.stdout?.once('end', () => this.#silent());
    child.stderr?.setEncoding('utf8').on('data', this.#log.reader());
    return child;
  }

  /** Sends a message. False: too many bytes wait already. */
  write(text: string): boolean {
    const stdin = this.#child?.stdin;
    if (this.#isOver || this.#isStopping || !stdin) return true;
    if (stdin.writableLength > maxUnwritten) return false;
    stdin.write(`${text}\n`);
    return true;
  }

  pause(): void {
    this.#child?.stdout?.pause();
  }

  resume(): void {
    this.#child?.stdout?.resume();
  }

  /** Ends it and its descendants; resolves when they are gone. */
  stop(): Promise<void> {
    if (this.#isStopping || this.#isOver) return this.#ended;
    this.#isStopping = true;
    this.#child?.stdin?.end();
    this.#child?.stdout?.resume();
    this.#signal('SIGTERM');
    this.#after(killAfterMs, () => this.#signal('SIGKILL'));
    return this.#ended;
  }

  #read(line: Line): void {
    if (this.#isStopping || this.#isOver) return;
    if (line.isTooLong) {
      this.#log.oversized();
      this.#events.oversized(idIn(line.head, line.tail));
      return;
    }
    const messages = rpc.readMessages(line.bytes);
    if (messages !== undefined) for (const message of messages) this.#events.message(message);
    else {
      const text = line.bytes.subarray(0, maxLogged * 4).toString('utf8');
      if (text.trim() !== '') this.#log.line(text, 'stdout');
    }
  }

  #failed(error: unknown): void {
    if (this.#child?.pid !== undefined) return;
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no reason is known';
    this.#finish(`could not be started (${code}): check its command and cwd`);
  }

  /** It has closed its output, and can answer nothing. */
  #silent(): void {
    if (!this.#hasExited && !this.#isStopping) this.#after(lingerMs, () => this.#signal('SIGKILL'));
  }

  /** Its descendants may hold its output open, and must not outlive it. */
  #exited(how: string): void {
    this.#hasExited = true;
    this.#signal('SIGKILL');
    const finish = (): void => this.#finish(`ended ${how}`);
    this.#child?.stdout?.resume();
    this.#after(lingerMs, finish);
    this.#child?.once('close', finish);
  }

  #finish(reason: string): void {
    if (this.#isOver) return;
    this.#cancelTimer();
    this.#isOver = true;
    const { pid, stdin, stdout, stderr } = this.#child ?? {};
    if (pid !== undefined) groups.delete(pid);
    for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    this.#resolve();
    if (!this.#isStopping) this.#events.ended(reason);
  }

  #after(ms: number, run: () => void): void {
    if (this.#isOver) return;
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.after(ms, run);
  }

  #signal(name: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid !== undefined && !this.#isOver) signal(pid, name);
  }
}

/** Sends a signal to a group of processes; it may be gone. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(-pid, name);
  } catch {
    // Nothing is left of it.
  }
}

/** Variables that programs need. All others are withheld: an environment often holds credentials. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const names = [
    ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'TEMP', 'TMP'],
    ...['SYSTEMROOT', 'SYSTEMDRIVE', 'APPDATA', 'LOCALAPPDATA', 'PROGRAMFILES', 'USERPROFILE', 'PATHEXT'],
  ];
  const kept = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(kept) as NodeJS.ProcessEnv;
}

/** A line, or the edges of one that is too long. */
type Line =
  | { readonly isTooLong: false; readonly bytes: Buffer }
  | { readonly isTooLong: true; readonly head: string; readonly tail: string };

/** Splits bytes into lines. */
class LineReader {
  readonly #take: (line: Line) => void;
  readonly #store = new ByteStore();
  /** The beginning of a line that is too long. */
  #head: string | undefined;

  constructor(take: (line: Line) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    let start = 0;
    while (start < chunk.length) {
      const lineEnd = chunk.indexOf(LF, start);
      const end = lineEnd === -1 ? chunk.length : lineEnd;
      this.#store.append(chunk, start, end);
      if (this.#head !== undefined || this.#store.length > maxLineBytes) this.#cut();
      if (lineEnd === -1) return;
      this.#emit();
      start = lineEnd + 1;
    }
  }

  /** Keeps no more than the edges of the line. */
  #cut(): void {
    const bytes = this.#store.take();
    this.#head ??= bytes.subarray(0, sampleBytes).toString('latin1');
    const tail = Buffer.from(bytes.subarray(-sampleBytes));
    this.#store.append(tail, 0, tail.length);
  }

  #emit(): void {
    const head = this.#head;
    const bytes = this.#store.take();
    this.#head = undefined;
    if (head === undefined) this.#take({ isTooLong: false, bytes });
    else this.#take({ isTooLong: true, head, tail: bytes.toString('latin1') });
  }
}

const idAtHead = /^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{0,128}")\s*,/;
const idAtTail = /"id"\s*:\s*(-?\d{1,15}|"[^"\\]{0,128}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;

function idIn(head: string, tail: string): RpcId | undefined {
  const found = (idAtHead.exec(head) ?? idAtTail.exec(tail))?.[1];
  return found === undefined ? undefined : (JSON.parse(found) as string | number);
}

/** Characters of one line in the log, and of one that is not complete yet. */
const maxLogged = 2_048;
const maxPartial = 16_384;
/** Lines in the log within ten seconds. */
const maxLines = 50;
const windowMs = 10_000;
/** A shorter value is no secret, and masking it would spoil the text. */
const minSecret = 4;

/** Brings what a program writes to the log: line by line, bounded, without the values of its variables. */
export class ChildLog {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #name: string;
  readonly #secrets: readonly string[];
  #windowEnds = -Infinity;
  #lines = 0;
  #leftOut = 0;

  constructor({ name, env }: McpStdioTarget, log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
    this.#name = name;
    this.#secrets = Object.values(env)
      .flatMap((value) => [value, ...value.split(/\r?\n/)])
      .filter((value) => value.length >= minSecret)
      .sort((one, other) => other.length - one.length);
  }

  /** Takes the text of one standard error. */
  reader(): (text: string) => void {
    let partial = '';
    let isCut = false;
    return (text) => {
      const lines = text.split('\n');
      for (const [index, line] of lines.entries()) {
        if (!isCut) partial += line;
        if (partial.length > maxPartial) isCut = true;
        if (index === lines.length - 1) return;
        if (partial.trim() !== '') this.line(partial, 'stderr');
        partial = '';
        isCut = false;
      }
    };
  }

  /** A line that the program wrote. */
  line(text: string, stream: 'stdout' | 'stderr'): void {
    if (!this.#mayWrite()) return;
    const shown = this.#masked(text.trimEnd()).slice(0, maxLogged);
    const what = stream === 'stderr' ? 'wrote to its standard error' : 'wrote something that is no message';
    this.#log.info(`The MCP server ${what}`, { server: this.#name, line: shown });
  }

  oversized(): void {
    if (this.#mayWrite()) this.warn(`sent a message of more than ${maxLineBytes} bytes, which is ignored`);
  }

  /** An event of the program's life. */
  warn(what: string): void {
    this.#log.warn(`The MCP server ${what}`, { server: this.#name });
  }

  /** Failures of a program that does not come up again. */
  error(what: string): void {
    this.#log.error(`The MCP server ${what}`, { server: this.#name });
  }

  #mayWrite(): boolean {
    const now = this.#clock.monotonic();
    if (now >= this.#windowEnds) {
      if (this.#leftOut > 0) {
        const fields = { server: this.#name, lines: this.#leftOut };
        this.#log.warn('The MCP server wrote more lines than the log takes', fields);
      }
      this.#windowEnds = now + windowMs;
      this.#lines = this.#leftOut = 0;
    }
    this.#lines += 1;
    if (this.#lines <= maxLines) return true;
    this.#leftOut += 1;
    return false;
  }

  #masked(text: string): string {
    return this.#secrets.reduce((masked, secret) => masked.replaceAll(secret, '***'), text);
  }
}

const firstDelayMs = 100;
const lastDelayMs = 60_000;
/** Failures in a row that are logged as an error. */
const manyFailures = 5;
/** A handshake waits no longer than this for the next start. */
const patienceMs = 2_000;

/** Delays before a program is started again: from 100 ms, doubled with each failure in a row, to a minute. */
export class StartDelays {
  readonly #clock: Clock;
  readonly #log: ChildLog;
  readonly #name: string;
  #failures = 0;
  #startsAt = -Infinity;
  #reason = '';

  constructor(name: string, log: ChildLog, clock: Clock) {
    this.#name = name;
    this.#log = log;
    this.#clock = clock;
  }

  /** Milliseconds until it may be started. */
  get waitMs(): number {
    return Math.max(0, this.#startsAt - this.#clock.monotonic());
  }

  /** Throws `upstream_unreachable` while the next start is far off. */
  requireSoon(): void {
    const { waitMs } = this;
    if (waitMs > patienceMs) {
      const next = `it is started again in ${Math.ceil(waitMs / 1000)} s`;
      throw childUnreachable(this.#name, `${this.#reason}; ${next}`);
    }
  }

  failed(reason: string): void {
    this.#failures += 1;
    this.#reason = this.#failures === 1 ? reason : `${reason}, ${this.#failures} times in a row`;
    const delayMs = Math.min(firstDelayMs * 2 ** Math.min(this.#failures - 1, 30), lastDelayMs);
    this.#startsAt = this.#clock.monotonic() + delayMs;
    const shown = `${this.#reason}; it is started again after ${delayMs} ms`;
    if (this.#failures < manyFailures) this.#log.warn(shown);
    else this.#log.error(shown);
  }

  succeeded(): void {
    this.#failures = 0;
    this.#startsAt = -Infinity;
  }
}

/** The program could not be started, or ended before it answered the handshake. */
function childUnreachable(name: string, reason: string): GatewayError {
  return new GatewayError('upstream_unreachable', `The MCP server ${name} ${reason}; see the log.`);
}

/** The program does not read what it is sent. */
function notReading(name: string): GatewayError {
  return new GatewayError(
    'upstream_busy',
    `The MCP server ${name} does not read what it is sent; try later.`,
  );
}
