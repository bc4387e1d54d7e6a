import {
  isNodeOpen,
  type PlanBranch,
  type PlanEnvironment,
  type PlanLeaf,
  type PlanNode,
  type StickySettings,
  type Strategy,
} from './plan-node.ts';
import type { FieldPath } from './field-path.ts';
import { sha256 } from '../../base/bytes.ts';

/**
 * Index of the child that the strategy of a branch prefers among those not taken yet; -1 for none. Only for strategies
 * that pick one: a fallback iterates over its children itself.
 */
export function pickChild(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const { strategy } = branch;
  switch (strategy.mode) {
    case 'loadbalance':
      return strategy.sticky === undefined
        ? pickWeighted(choice, branch, taken)
        : pickSticky(choice, branch, strategy.sticky, taken);
    case 'conditional':
      return pickByCondition(choice, strategy);
    case 'least-latency':
      return pickFastest(choice, branch, taken);
    case 'least-cost':
      return pickCheapest(choice, branch, taken);
    case 'round-robin':
      return pickInTurn(choice, branch, taken);
    case 'canary':
      return pickCanary(choice, branch, strategy, taken);
    case 'single':
    case 'fallback':
      return 0;
  }
}

/** The number that the strategy of a branch compares its children by: weight, milliseconds, price or share. */
export function scoreOf(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const { strategy, children } = branch;
  switch (strategy.mode) {
    case 'loadbalance':
    case 'round-robin':
      return children[index]?.weight;
    case 'least-latency':
      return latencyOfChild(choice, branch, index);
    case 'least-cost':
      return costOfChild(choice, branch, index);
    case 'canary':
      return index === 1 ? strategy.percentage : 100 - strategy.percentage;
    default:
      return undefined;
  }
}

const branchSalts = new WeakMap<PlanBranch, number>();

/**
 * The second child for `percentage` of the requests, the first one for the others. The hash of the hash fields decides,
 * so that a canary stays one while the percentage grows; the choice is random for a request without these fields. A
 * child whose breaker is open is replaced by the other one.
 */
function pickCanary(
  choice: BranchChoice,
  branch: PlanBranch,
  strategy: Extract<Strategy, { readonly mode: 'canary' }>,
  taken: readonly number[],
): number {
  const [first] = taken;
  // A second pick can only be the other child.
  if (first !== undefined) return taken.length === 1 && isFree(choice, branch, 1 - first) ? 1 - first : -1;
  const key = hashOfFields(strategy.hashFields, choice.field);
  const fraction = key === undefined ? choice.environment.random() : hashFraction(key, saltOfBranch(branch));
  const below = fraction * 100 < strategy.percentage;
  const wanted = below ? 1 : 0;
  const free = isFree(choice, branch, wanted);
  if (choice.traced)
    choice.reason =
      `${key === undefined ? 'random' : 'hash'} ${fraction.toFixed(3)} is ${below ? '' : 'not '}below ` +
      `${strategy.percentage} %${free ? '' : ', but its breaker is open'}`;
  return free ? wanted : 1 - wanted;
}

function isFree(choice: BranchChoice, branch: PlanBranch, index: number): boolean {
  const child = branch.children[index];
  return child !== undefined && (choice.bypass || !isNodeOpen(choice.environment, child));
}

/** Salt from the branch's path, so that branches pick different canaries, and an edit of the config moves no user. */
function saltOfBranch(branch: PlanBranch): number {
  let salt = branchSalts.get(branch);
  if (salt === undefined) branchSalts.set(branch, (salt = saltOf(branch.path)));
  return salt;
}

/** Share of the requests with a random target, so that a target that was slow once is measured again. */
const exploring = 1 / 50;

/**
 * The faster of two children that are drawn by weight. The result is close to the fastest child and avoids sending all
 * requests to one target at the same moment. A child without a measurement is preferred.
 */
function pickFastest(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const one = pickWeighted(choice, branch, taken);
  const other = one === -1 ? -1 : pickWeighted(choice, branch, taken, one);
  if (other === -1) return one;
  if (choice.environment.random() < exploring) {
    if (choice.traced && taken.length === 0) choice.reason = 'random, to measure again';
    return one;
  }
  const latency = latencyOfChild(choice, branch, one);
  const otherLatency = latencyOfChild(choice, branch, other);
  const first = latency === undefined || (otherLatency !== undefined && latency <= otherLatency);
  if (choice.traced && taken.length === 0)
    choice.reason = first ? latencyReason(latency, otherLatency) : latencyReason(otherLatency, latency);
  return first ? one : other;
}

function latencyReason(picked: number | undefined, passed: number | undefined): string {
  if (picked === undefined || passed === undefined) return 'not measured yet';
  return `${picked.toFixed(0)} ms against ${passed.toFixed(0)} ms`;
}

/** Milliseconds to the first token of the target that represents a child. */
function latencyOfChild(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const child = branch.children[index];
  const leaf = child === undefined ? undefined : leadingLeaf(choice.environment, child);
  return leaf === undefined ? undefined : choice.environment.latency(leaf);
}

/** Upper bound of turns in one period, unless there are more targets. Weights that need more are rounded. */
const longestPeriod = 1000;
/** Weights with up to this many decimals keep their ratio exactly. */
const decimals = [1, 10, 100, 1000];

const schedules = new WeakMap<PlanBranch, Uint32Array>();

/**
 * The child whose turn it is; turns are proportional to weights and evenly spread. A child that may not be picked is
 * skipped for the next in the schedule. -1 when none may be picked.
 */
function pickInTurn(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const schedule = scheduleOf(branch);
  if (schedule.length === 0) return -1;
  // Further picks of a request continue from its turn and take none.
  if (taken.length === 0) choice.position = choice.environment.turn(branch) % schedule.length;
  if (choice.traced && taken.length === 0)
    choice.reason = `turn ${choice.position + 1} of ${schedule.length}`;
  for (let step = 0; step < schedule.length; step++) {
    const index = schedule[(choice.position + step) % schedule.length] ?? -1;
    if (choice.isEligible(branch, index, taken)) return index;
  }
  return -1;
}

function scheduleOf(branch: PlanBranch): Uint32Array {
  const known = schedules.get(branch);
  if (known !== undefined) return known;
  const made = smoothSchedule(branch.children.map(({ weight }) => weight));
  schedules.set(branch, made);
  return made;
}

/**
 * One period of smooth weighted round-robin: each index in proportion to its weight, evenly spread. Computed once per
 * branch, so that a turn is one look-up.
 */
export function smoothSchedule(weights: readonly number[]): Uint32Array {
  const shares = integerShares(weights);
  const period = shares.reduce((sum, share) => sum + share, 0);
  const schedule = new Uint32Array(period);
  const credit = shares.map(() => 0);
  for (let turn = 0; turn < period; turn++) {
    let best = 0;
    for (const [index, share] of shares.entries()) {
      credit[index] = (credit[index] ?? 0) + share;
      if ((credit[index] ?? 0) > (credit[best] ?? 0)) best = index;
    }
    credit[best] = (credit[best] ?? 0) - period;
    schedule[turn] = best;
  }
  return schedule;
}

/** Integers in the ratio of the weights, with a sum of at most a period; at least 1 for every positive weight. */
function integerShares(weights: readonly number[]): readonly number[] {
  for (const factor of decimals) {
    const scaled = weights.map((weight) => Math.round(Math.max(weight, 0) * factor));
    const exact = weights.every(
      (weight, index) => Math.abs(Math.max(weight, 0) * factor - (scaled[index] ?? 0)) < 1e-9 * factor,
    );
    if (!exact) continue;
    const divisor = scaled.reduce(greatestCommonDivisor, 0);
    const shares = divisor === 0 ? scaled : scaled.map((share) => share / divisor);
    if (shares.reduce((sum, share) => sum + share, 0) <= longestPeriod) return shares;
  }
  const total = weights.reduce((sum, weight) => sum + Math.max(weight, 0), 0);
  return weights.map((weight) =>
    weight > 0 ? Math.max(1, Math.floor((weight / total) * longestPeriod)) : 0,
  );
}

function greatestCommonDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestCommonDivisor(right, left % right);
}

/** Salts of the children of a branch; derived from names rather than places, so that a target may move in its list. */
const salts = new WeakMap<PlanBranch, readonly number[]>();

/**
 * The child to which the request's hash fields are assigned, if it may be picked; else the result of weighted rendezvous
 * hashing, on which all replicas agree without communication, and which is then assigned. Random for a request without
 * any of the fields.
 */
function pickSticky(
  choice: BranchChoice,
  branch: PlanBranch,
  sticky: StickySettings,
  taken: readonly number[],
): number {
  if (taken.length > 0)
    return choice.key === undefined ? pickWeighted(choice, branch, taken) : pickByHash(choice, branch, taken);
  const { environment } = choice;
  const key = hashOfFields(sticky.hashFields, choice.field);
  choice.key = key;
  if (key === undefined) {
    if (choice.traced) choice.reason = 'no hash field is present, random';
    return pickWeighted(choice, branch, taken);
  }
  const assigned = environment.assigned(branch, key);
  const holds = assigned !== undefined && choice.isEligible(branch, assigned, taken);
  if (choice.traced) choice.reason = holds ? 'sticky assignment' : 'assigned by hash';
  const picked = holds ? assigned : pickByHash(choice, branch, taken);
  // Each use renews the assignment.
  if (picked !== -1) environment.assign(branch, key, picked, sticky.ttlMs);
  return picked;
}

function pickByHash(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const key = choice.key ?? '';
  const saltOfChild = saltsOf(branch);
  let picked = -1;
  let least = Number.POSITIVE_INFINITY;
  for (const [index, child] of branch.children.entries()) {
    if (!choice.isEligible(branch, index, taken)) continue;
    const distance = -Math.log(hashFraction(key, saltOfChild[index])) / child.weight;
    if (picked !== -1 && distance >= least) continue;
    picked = index;
    least = distance;
  }
  return picked;
}

function saltsOf(branch: PlanBranch): readonly number[] {
  const known = salts.get(branch);
  if (known !== undefined) return known;
  const names = new Set<string>();
  const made = branch.children.map(({ name }, index) => {
    const unique = name !== undefined && !names.has(name);
    if (unique) names.add(name);
    return saltOf(`${branch.path}/${unique ? `=${name}` : index}`);
  });
  salts.set(branch, made);
  return made;
}

/** Upper bound of a key; longer ones are replaced by their digest, which bounds the memory of assignments. */
const longestKey = 128;

/**
 * A number of at least 0 and below 1 that depends only on the text and the salt: the same in every process, runtime and
 * release, because assignments depend on it. Well mixed but not cryptographic: the author of a text can choose its
 * number.
 */
export function hashFraction(text: string, salt = 0): number {
  let low = 0xdeadbeef ^ salt;
  let high = 0x41c6ce57 ^ salt;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x9e3779b1);
    high = Math.imul(high ^ unit, 0x5f356495);
  }
  const mixedLow = mixBits(low ^ Math.imul(high, 0x27d4eb2f));
  const mixedHigh = mixBits(high ^ Math.imul(mixedLow, 0x165667b1));
  // 53 bits: as many as a number holds below 1.
  return ((mixedHigh >>> 11) * 4_294_967_296 + (mixedLow >>> 0)) / 9_007_199_254_740_992;
}

/** A salt for `hashFraction`, so that two places that hash the same text get different numbers. */
export function saltOf(text: string): number {
  return Math.floor(hashFraction(text) * 4_294_967_296) | 0;
}

/** The finalizer of MurmurHash3: every bit of the result depends on every bit of the input. */
function mixBits(bits: number): number {
  let hash = bits;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/**
 * A key that two requests share exactly when the values of these fields are equal, at most 128 characters long.
 * Undefined when the request has none of them.
 */
export function hashOfFields(
  paths: readonly FieldPath[],
  field: (path: FieldPath) => unknown,
): string | undefined {
  let key = '';
  let present = false;
  for (const path of paths) {
    const text = textOf(field(path));
    if (text === undefined) key += '-';
    else {
      present = true;
      // The length prefix makes the concatenation unambiguous.
      key += `${text.length}:${text}`;
    }
  }
  if (!present) return undefined;
  return key.length <= longestKey ? key : sha256(key, 'base64url');
}

/** Numbers and texts of the same digits are equal, because metadata holds only texts. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string' || value === undefined) return value;
  if (typeof value === 'bigint') return String(value);
  try {
    return JSON.stringify(value, integersAsText);
  } catch {
    // Nested deeper than the stack allows: not a usable field.
    return undefined;
  }
}

function integersAsText(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

/** For the first pick. */
export const nothingTaken: readonly number[] = [];

/** State of the picks among the children of one branch. One object per walk, reset at each branch. */
export class BranchChoice {
  readonly environment: PlanEnvironment;
  /** Every eligible child has an open breaker, so breakers are ignored. */
  bypass = false;
  /** Reason of the choice; kept only for a traced request. */
  reason: string | undefined;
  /** Position of round-robin in its schedule. */
  position = 0;
  /** Key from the request's hash fields. */
  key: string | undefined;
  #field: ((path: FieldPath) => unknown) | undefined;

  constructor(environment: PlanEnvironment) {
    this.environment = environment;
  }

  /** Fields of the request, for conditions and hashes. */
  get field(): (path: FieldPath) => unknown {
    return (this.#field ??= (path) => this.environment.field(path));
  }

  /** Whether the request is traced; reasons are composed only then. */
  get traced(): boolean {
    return this.environment.trace !== undefined;
  }

  /** Call it before the first pick among the children of `branch`. */
  begin(branch: PlanBranch, weighted: boolean): void {
    this.reason = undefined;
    this.bypass = true;
    for (const child of branch.children) {
      if ((weighted && child.weight <= 0) || isNodeOpen(this.environment, child)) continue;
      this.bypass = false;
      return;
    }
  }

  /** Whether the child may be picked by weight: its weight is positive, its breaker closed, and it was not picked before. */
  isEligible(branch: PlanBranch, index: number, taken: readonly number[]): boolean {
    const child = branch.children[index];
    if (child === undefined || child.weight <= 0 || taken.includes(index)) return false;
    return this.bypass || !isNodeOpen(this.environment, child);
  }
}

/** A random child with a probability by weight; -1 when none may be picked. `besides` is excluded as well. */
function pickWeighted(
  choice: BranchChoice,
  branch: PlanBranch,
  taken: readonly number[],
  besides = -1,
): number {
  const { children } = branch;
  let total = 0;
  for (let index = 0; index < children.length; index++)
    if (index !== besides && choice.isEligible(branch, index, taken)) total += children[index]?.weight ?? 0;
  let left = choice.environment.random() * total;
  let picked = -1;
  for (let index = 0; index < children.length; index++) {
    if (index === besides || !choice.isEligible(branch, index, taken)) continue;
    picked = index;
    left -= children[index]?.weight ?? 0;
    // Rounding may leave a remainder after the last one, which is then the pick.
    if (left < 0) break;
  }
  return picked;
}

/** The child of the first matching condition, else the default one; -1 when there is none. */
function pickByCondition(
  choice: BranchChoice,
  strategy: Extract<Strategy, { readonly mode: 'conditional' }>,
): number {
  const { conditions, otherwise } = strategy;
  for (let index = 0; index < conditions.length; index++) {
    const { test, then } = conditions[index] as (typeof conditions)[number];
    if (!test(choice.field)) continue;
    if (choice.traced) choice.reason = `condition ${index + 1} matched`;
    return then;
  }
  if (choice.traced) choice.reason = otherwise === undefined ? 'no condition matched' : 'default';
  return otherwise ?? -1;
}

/** The cheapest child; those of unknown price come last, those of one price in file order. -1 when none may be picked. */
function pickCheapest(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  let picked = -1;
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < branch.children.length; index++) {
    if (!choice.isEligible(branch, index, taken)) continue;
    const cost = costOfChild(choice, branch, index) ?? Number.POSITIVE_INFINITY;
    if (picked !== -1 && cost >= least) continue;
    picked = index;
    least = cost;
  }
  if (choice.traced && taken.length === 0)
    choice.reason = least === Number.POSITIVE_INFINITY ? 'no price is known' : 'lowest estimate';
  return picked;
}

/** Estimated price in US dollars of this request at the target that represents a child. */
function costOfChild(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const child = branch.children[index];
  const leaf = child === undefined ? undefined : leadingLeaf(choice.environment, child);
  return leaf === undefined ? undefined : choice.environment.cost(leaf);
}

/**
 * The target that represents a node in comparisons: its first one with a closed breaker, else its first one.
 */
function leadingLeaf(environment: PlanEnvironment, node: PlanNode): PlanLeaf | undefined {
  return firstClosed(environment, node) ?? firstLeaf(node);
}

function firstClosed(environment: PlanEnvironment, node: PlanNode): PlanLeaf | undefined {
  if (node.kind === 'leaf') return isNodeOpen(environment, node) ? undefined : node;
  for (const child of node.children) {
    const found = firstClosed(environment, child);
    if (found !== undefined) return found;
  }
  return undefined;
}

function firstLeaf(node: PlanNode): PlanLeaf | undefined {
  if (node.kind === 'leaf') return node;
  for (const child of node.children) {
    const found = firstLeaf(child);
    if (found !== undefined) return found;
  }
  return undefined;
}
