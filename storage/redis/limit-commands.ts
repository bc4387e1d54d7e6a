import { wholeUnits, type Budget } from '../../core/ports/budgets.ts';
import type { Window, Charges, WindowRefusal } from '../../core/ports/counters.ts';
import { type EncodedCommand, encodedCommands, type RedisReply } from './encoded-command.ts';
import { limitScripts, type Script } from './limit-scripts.ts';

/** Calls of the scripts of limits. */
export const limitCalls = { checkLengths, fixed: fixedCall, runFixed, runScript, report: reportCommand };

/** The part in braces decides the slot of a cluster: all keys of one organisation share it. */
function keyOf(organisationId: string, rest: string): string {
  return `weir:{${organisationId === '' ? '-' : encodeURIComponent(organisationId)}}:${rest}`;
}

function windowKey({ key, group = '', windowMs }: Window): string {
  return keyOf(group, `count:${windowMs}:${key}`);
}

function budgetKey(organisationId: string, key: string): string {
  return keyOf(organisationId, `budget:${key}`);
}

/** Key of the gateways with reservations on an organisation's budgets. */
function gatewaysKey(organisationId: string): string {
  return keyOf(organisationId, 'gateways');
}

/** Key of all gateways. */
const presenceKey = keyOf('', 'present');

/** Keys of limits. */
export const limitKeys = {
  window: windowKey,
  budget: budgetKey,
  gateways: gatewaysKey,
  presence: presenceKey,
};

/** Throws RangeError for a length that cannot be counted. */
function checkLengths(windows: readonly Window[]): void {
  for (const { windowMs } of windows) {
    if (!Number.isSafeInteger(windowMs) || windowMs <= 0)
      throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
  }
}

/** The constant part of a script's calls. */
export interface FixedCall {
  readonly script: Script;
  readonly count: string;
  /** The constant bytes of the call. */
  readonly bytes: Buffer;
  /** Position of the parts after the script's name. */
  readonly partsAt: number;
}

/** Calls of a script with these parts after its name, and a number of variable ones. */
function fixedCall(script: Script, parts: readonly (string | number)[], varying: 0 | 1 | 2): FixedCall {
  const count = encodedCommands.count(2 + parts.length + varying);
  const name = count + encodedCommands.parts(['EVALSHA', script.sha1]);
  return { script, count, bytes: Buffer.from(name + encodedCommands.parts(parts)), partsAt: name.length };
}

/** The call with its variable parts. */
function runFixed(fixed: FixedCall, varying: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixed, encodedCommands.parts(varying));
}

/** Same when the variable part is one ASCII text: each part has a cost, on both sides. */
function runPacked(fixed: FixedCall, text: string): EncodedCommand {
  return new FixedRun(fixed, `$${text.length}\r\n${text}\r\n`);
}

class FixedRun implements EncodedCommand {
  readonly name = 'evalsha';
  readonly bytes: string;
  readonly #fixed: FixedCall;

  constructor(fixed: FixedCall, bytes: string) {
    this.#fixed = fixed;
    this.bytes = bytes;
  }

  get head(): Buffer {
    return this.#fixed.bytes;
  }

  /** The server has lost its scripts (a restart, SCRIPT FLUSH): nothing was run. */
  instead({ message }: Error): EncodedCommand | undefined {
    return message.startsWith('NOSCRIPT') ? wholeCall(this.#fixed, this.bytes) : undefined;
  }
}

function wholeCall({ script, count, bytes, partsAt }: FixedCall, rest: string): EncodedCommand {
  const parts = bytes.toString('utf8', partsAt);
  return { name: 'eval', bytes: count + encodedCommands.parts(['EVAL', script.source]) + parts + rest };
}

/** Runs a script once, with these parts after its name. */
function runScript(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return new FixedRun(fixedCall(script, parts, 0), '');
}

/** Same with the script's text, which the server caches. */
function runWhole(script: Script, parts: readonly (string | number)[]): EncodedCommand {
  return wholeCall(fixedCall(script, parts, 0), '');
}

const space = 0x20;
const zero = 0x30;

/** The space-separated numbers of an answer, read in sequence. */
export class Numbers {
  private readonly text: Buffer;
  private at = 0;

  constructor(reply: RedisReply) {
    this.text = Buffer.isBuffer(reply) ? reply : Buffer.from(String(reply));
  }

  next(): number {
    const { text, at: start } = this;
    let value = 0;
    let isPlain = true;
    let at = start;
    for (; at < text.length && text[at] !== space; at++) {
      const digit = (text[at] as number) - zero;
      isPlain &&= digit >= 0 && digit <= 9;
      value = value * 10 + digit;
    }
    this.at = at + 1;
    return isPlain ? value : Number(text.toString('latin1', start, at));
  }
}

/** Owner of budgets, and the time for which they are kept. */
export interface Place {
  readonly organisationId: string;
  readonly gateway: string;
  readonly keepMs: number;
}

/** Data of one budget in a command. Whole units. */
export interface BudgetPosition {
  /** Known state before the command. */
  readonly epoch: number;
  readonly used: number;
  /** Amount to reserve, or to release. */
  readonly amount: number;
  /** Used amount. */
  readonly added: number;
  /** Certain reservation: before an admission, after a settlement. */
  certain: number;
}

/** Data of a budget before an admission. */
export type AdmittedPosition = Omit<BudgetPosition, 'added'>;
/** Same, with the budget's key. */
export type ToldBudget = BudgetPosition & { readonly key: string };

/** Variable part of an admission. `now` is undefined for the server's own time. */
interface AdmitCall {
  readonly tokens: number;
  readonly now: number | undefined;
  readonly session?: number;
  readonly positions?: readonly AdmittedPosition[];
}

/** Variable part of a settlement. */
interface SettleCall {
  /** Amount for token windows; negative: given back. */
  readonly delta: number;
  readonly now: number | undefined;
  /** Undefined without budgets. */
  readonly session: number | undefined;
  readonly positions: readonly BudgetPosition[];
}

const none: readonly never[] = [];

/** Commands of a request for all its windows and budgets: encoded once, except for the variable part. */
export class PreparedCharges {
  readonly charges: Charges;
  readonly budgets: readonly Budget[];
  /** Organisation of the budgets; undefined without budgets. */
  readonly organisation: string | undefined;
  readonly #place: Omit<Place, 'organisationId'>;
  #admit: FixedCall | undefined;
  #settle: FixedCall | undefined;
  #usual: EncodedCommand | undefined;
  #share: { readonly replicas: number; readonly charges: Charges } | undefined;

  /** `isCounted` is false when budgets are not counted. */
  constructor(charges: Charges, of: Omit<Place, 'organisationId'> & { readonly isCounted: boolean }) {
    this.charges = charges;
    this.budgets = of.isCounted ? (charges.budgets ?? none) : none;
    this.organisation = this.budgets[0]?.organisationId;
    this.#place = of;
    checkLengths(this.#requests);
    checkLengths(this.#tokens);
  }

  /** There is nothing to count. */
  get isEmpty(): boolean {
    const { requests, tokens } = this.charges;
    return requests === undefined && tokens === undefined && this.budgets.length === 0;
  }

  /** The request has something to settle when it ends. */
  get isSettled(): boolean {
    return this.charges.tokens !== undefined || this.budgets.length > 0;
  }

  get #requests(): readonly Window[] {
    return this.charges.requests?.windows ?? none;
  }

  get #tokens(): readonly Window[] {
    return this.charges.tokens?.windows ?? none;
  }

  /** Counts a request. */
  admit({ tokens, now, session, positions = none }: AdmitCall): EncodedCommand {
    // With windows of requests alone, it is constant.
    const isUsual = now === undefined && !this.isSettled;
    if (isUsual && this.#usual !== undefined) return this.#usual;
    let numbers = `${tokens} ${now ?? serverTime}`;
    if (session !== undefined) numbers += ` ${session}`;
    for (const { amount, epoch, used, certain } of positions)
      numbers += ` ${amount} ${epoch} ${used} ${certain}`;
    const command = runPacked((this.#admit ??= this.#admitCall()), numbers);
    if (isUsual) this.#usual = command;
    return command;
  }

  /** Counts its use. */
  settle({ delta, now, session, positions }: SettleCall): EncodedCommand {
    return runPacked(
      (this.#settle ??= this.#settleCall()),
      settledNumbers({ delta, now, session, positions }, true),
    );
  }

  /** Gives back the amount taken from windows of requests. Undefined without any. */
  giveBackRequests(now: number | undefined): EncodedCommand | undefined {
    const windows = this.#requests;
    if (windows.length === 0) return undefined;
    const parts = [
      windows.length,
      ...windows.map(windowKey),
      ...windows.flatMap(({ limit, windowMs }) => [limit, windowMs]),
      -1,
      now ?? '',
    ];
    return runScript(limitScripts.adjust, parts);
  }

  /** The same windows with the share of one of `replicas` gateways, at least 1. Budgets are unchanged. */
  shareOf(replicas: number): Charges {
    if (replicas <= 1) return this.charges;
    if (this.#share?.replicas !== replicas) {
      const { requests, tokens, budgets } = this.charges;
      const part = (limit: number): number => Math.ceil(limit / replicas);
      const share = (list: Charges['requests']): Charges['requests'] =>
        list && {
          windows: list.windows.map((window) => ({ ...window, limit: part(window.limit) })),
          smallest: part(list.smallest),
        };
      this.#share = { replicas, charges: { requests: share(requests), tokens: share(tokens), budgets } };
    }
    return this.#share.charges;
  }

  /** The refusing window, from the server's answer. */
  windowRefusal(numbers: Numbers): WindowRefusal {
    const place = numbers.next();
    const ofOne = this.#requests.length;
    const list = place < ofOne ? 'requests' : 'tokens';
    const index = place < ofOne ? place : place - ofOne;
    const { limit, windowMs } = (list === 'requests' ? this.#requests : this.#tokens)[index] as Window;
    const total = numbers.next();
    const remaining = total < limit ? limit - total : 0;
    const window = { limit, windowMs, remaining, resetMs: numbers.next() };
    return { isAdmitted: false, list, index, window };
  }

  #admitCall(): FixedCall {
    const windows = [...this.#requests, ...this.#tokens];
    const parts = [
      ...this.#keys(windows),
      windows.length,
      this.#requests.length,
      ...windows.flatMap(({ limit, windowMs }) => [limit, windowMs]),
      ...this.budgets.map(({ limit, unit }) => wholeUnits(limit, unit)),
      ...this.#kept(),
    ];
    return fixedCall(limitScripts.admit, parts, 1);
  }

  #settleCall(): FixedCall {
    const windows = this.#tokens;
    const parts = [
      ...this.#keys(windows),
      windows.length,
      ...windows.map(({ windowMs }) => windowMs),
      ...this.#kept(),
    ];
    return fixedCall(limitScripts.settle, parts, 1);
  }

  /** The number of keys, and the keys. */
  #keys(windows: readonly Window[]): readonly (string | number)[] {
    const keys = windows.map(windowKey);
    if (this.organisation !== undefined) {
      keys.push(gatewaysKey(this.organisation));
      for (const { organisationId, key } of this.budgets) keys.push(budgetKey(organisationId, key));
    }
    return [keys.length, ...keys];
  }

  #kept(): readonly (string | number)[] {
    return this.organisation === undefined ? none : [this.#place.gateway, this.#place.keepMs];
  }
}

/** Stands for the server's time. */
const serverTime = '-';

/** Variable part of a settlement, in the script's form. */
function settledNumbers({ delta, now, session, positions }: SettleCall, isEntered: boolean): string {
  let numbers = `${delta} ${now ?? serverTime}`;
  if (session !== undefined) numbers += ` ${session} ${isEntered ? 1 : 0}`;
  for (const { epoch, used, added, amount, certain } of positions)
    numbers += ` ${epoch} ${used} ${added} ${amount} ${certain}`;
  return numbers;
}

/** Reports the state of budgets to the server. `isEntered`: the gateway's session starts with it. */
function reportCommand(
  { organisationId, gateway, keepMs }: Place,
  call: {
    readonly now: number | undefined;
    readonly session: number;
    readonly isEntered: boolean;
    readonly positions: readonly ToldBudget[];
  },
): EncodedCommand {
  const { now, session, isEntered, positions } = call;
  const keys = [gatewaysKey(organisationId), ...positions.map(({ key }) => budgetKey(organisationId, key))];
  const parts = [
    keys.length,
    ...keys,
    ...[0, gateway, keepMs],
    settledNumbers({ delta: 0, now, session, positions }, isEntered),
  ];
  // A server without the script would be called again, after the commands sent meanwhile: the additions of a settlement
  // would then also be in the reported state, and count twice. So the first call of a session carries the script.
  return isEntered ? runWhole(limitScripts.settle, parts) : runScript(limitScripts.settle, parts);
}
