import { type Budget, wholeUnits } from '../../core/ports/budgets.ts';
import type { Charges, Window, WindowRefusal } from '../../core/ports/counters.ts';
import type { EncodedCommand } from './encoded-command.ts';
import {
  budgetKey,
  checkLengths,
  fixedCall,
  type FixedCall,
  gatewaysKey,
  type Numbers,
  presenceKey,
  runPacked,
  runScript,
  runWhole,
  windowKey,
} from './limit-commands.ts';
import { adjustScript, admitScript, presenceScript, settleScript } from './limit-scripts.ts';

/** Whose budgets a gateway counts, and how long they are kept. */
export interface Place {
  readonly organisationId: string;
  readonly gateway: string;
  readonly keepMs: number;
}

/** What is said of one budget. Whole units. */
export interface BudgetPosition {
  /** What is known of it before. */
  readonly epoch: number;
  readonly used: number;
  /** What to reserve, or to release. */
  readonly amount: number;
  /** What was used. */
  readonly added: number;
  /** What is certainly reserved: before an admission, after a settlement. */
  certain: number;
}

/** What is said of it before an admission. */
export type AdmittedPosition = Omit<BudgetPosition, 'added'>;
/** The same, with the budget's key. */
export type ToldBudget = BudgetPosition & { readonly key: string };

/** What changes from admission to admission. `now` is undefined for the server's own time. */
interface AdmitCall {
  readonly tokens: number;
  readonly now: number | undefined;
  readonly session?: number;
  readonly positions?: readonly AdmittedPosition[];
}

/** What changes from settlement to settlement. */
interface SettleCall {
  /** What token windows get; negative: what is given back. */
  readonly delta: number;
  readonly now: number | undefined;
  /** Undefined without budgets. */
  readonly session: number | undefined;
  readonly positions: readonly BudgetPosition[];
}

const none: readonly never[] = [];

/** What is sent for a request by everything that it is counted in: put together once, but for what changes. */
export class PreparedCharges {
  readonly charges: Charges;
  readonly budgets: readonly Budget[];
  /** Whose the budgets are; undefined without budgets. */
  readonly organisation: string | undefined;
  readonly #place: Omit<Place, 'organisationId'>;
  #admit: FixedCall | undefined;
  #settle: FixedCall | undefined;
  #usual: EncodedCommand | undefined;
  #share: { readonly replicas: number; readonly charges: Charges } | undefined;

  /** `isCounted` is false where budgets count nothing. */
  constructor(charges: Charges, of: Omit<Place, 'organisationId'> & { readonly isCounted: boolean }) {
    this.charges = charges;
    this.budgets = of.isCounted ? (charges.budgets ?? none) : none;
    this.organisation = this.budgets[0]?.organisationId;
    this.#place = of;
    checkLengths(this.#requests);
    checkLengths(this.#tokens);
  }

  /** Nothing counts. */
  get isEmpty(): boolean {
    const { requests, tokens } = this.charges;
    return requests === undefined && tokens === undefined && this.budgets.length === 0;
  }

  /** A request has something to settle when it ends. */
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
    // Where only requests are counted, it is the same each time.
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

  /** Counts what it has used. */
  settle({ delta, now, session, positions }: SettleCall): EncodedCommand {
    return runPacked(
      (this.#settle ??= this.#settleCall()),
      settledNumbers({ delta, now, session, positions }, true),
    );
  }

  /** Gives back what a request took of those windows that take one. Undefined without any. */
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
    return runScript(adjustScript, parts);
  }

  /** The same windows with the share of one of so many gateways, at least 1. Budgets are as they are. */
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

  /** The window that refuses, as the server tells it. */
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
    return fixedCall(admitScript, parts, 1);
  }

  #settleCall(): FixedCall {
    const windows = this.#tokens;
    const parts = [
      ...this.#keys(windows),
      windows.length,
      ...windows.map(({ windowMs }) => windowMs),
      ...this.#kept(),
    ];
    return fixedCall(settleScript, parts, 1);
  }

  /** How many keys there are, and which. */
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

/** In place of a time: that of the server. */
const serverTime = '-';

/** What changes from settlement to settlement, as the script reads it. */
function settledNumbers({ delta, now, session, positions }: SettleCall, isEntered: boolean): string {
  let numbers = `${delta} ${now ?? serverTime}`;
  if (session !== undefined) numbers += ` ${session} ${isEntered ? 1 : 0}`;
  for (const { epoch, used, added, amount, certain } of positions)
    numbers += ` ${epoch} ${used} ${added} ${amount} ${certain}`;
  return numbers;
}

/** Tells the server that a gateway is there, or that it leaves. */
export function presenceCommand(gateway: string, now: number | undefined, isLeaving = false): EncodedCommand {
  const parts = [1, presenceKey, gateway, now ?? '', isLeaving ? 'leaves' : ''];
  return runScript(presenceScript, parts);
}

/** Tells the server what is known of budgets. `isEntered`: with it the session begins for the gateway. */
export function tellCommand(
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
  // A server that does not know the script is asked again, behind what was sent meanwhile: what a settlement adds would be in
  // what is told as known then, and count twice. So the first call of a session brings the script.
  return isEntered ? runWhole(settleScript, parts) : runScript(settleScript, parts);
}
