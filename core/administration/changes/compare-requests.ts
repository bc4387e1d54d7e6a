import { isInlineConfig, type RecordedRequest } from './recorded-request.ts';

/** Where one configuration leads a request. */
export interface Judgement {
  readonly pipeline: string;
  /** Wire of the client. */
  readonly wire: string;
  /** Empty for none. */
  readonly config: string;
  /** The first target that is asked; undefined when none is. */
  readonly target: { readonly provider: string; readonly model: string } | undefined;
  /** Why it is refused before a provider hears of it; undefined when it is not. */
  readonly refusal: Refusal | undefined;
  /** Path at the provider: bodies of different paths cannot be compared. */
  readonly sentPath: string;
  /** Members of the body that the target gets, each as JSON. */
  readonly sent: ReadonlyMap<string, string>;
  /** Parts of the request that its target's wire cannot express. */
  readonly dropped: readonly string[];
  /** US dollars for the recorded tokens; undefined when there is no price or no target. */
  readonly cost: number | undefined;
  /** Steps that were left out because they call other services, in words. */
  readonly unasked: readonly string[];
}

/** A refusal by the gateway. */
interface Refusal {
  readonly status: number;
  readonly code: string;
  /** The plugin, and the guardrails that refused. */
  readonly by: string;
  /** It leads this model to no provider, and may serve others. */
  readonly isForModel: boolean;
}

/** One configuration, to run requests through. */
export interface Side {
  /** `names` are headers of the gateway, without their prefix, that are added. */
  judge(request: RecordedRequest, names: Names): Promise<Judgement>;
}

/** Number of requests to which something happens, with one of them as the example. */
interface Counted {
  readonly what: string;
  readonly requests: number;
  /** A request id. */
  readonly example: string;
}

/** Requests per target, before and after. */
interface TargetShare {
  readonly target: string;
  readonly before: number;
  readonly after: number;
}

/** Requests that a configuration handles alike: one pipeline, path, wire, model and config. */
interface RequestClass {
  readonly pipeline: string;
  readonly route: string;
  readonly wire: string;
  readonly model: string;
  readonly config: string;
  readonly requests: number;
  /** Those of them to which something changes. */
  readonly changed: number;
  /** Those of them that go to another target, or to none, or to one for the first time. */
  readonly routed: Counted | undefined;
  readonly targets: readonly TargetShare[];
  /** Requests that are refused now, are no longer, or are for another reason. */
  readonly refusals: readonly Counted[];
  readonly parameters: readonly Counted[];
  /** US dollars for the requests whose price is known on both sides. */
  readonly cost: { readonly before: number; readonly after: number };
}

/** What a new configuration changes for recorded requests. */
export interface ChangeReport {
  readonly requests: number;
  readonly changed: number;
  /** The classes to which something changes, the largest change first. */
  readonly classes: readonly RequestClass[];
  /** Requests that were judged without their bodies, from their model, path and size. */
  readonly withoutBody: number;
  /** Requests that could not be judged, by reason. */
  readonly notJudged: readonly Counted[];
  /** Parts of the judgement that were left out, by what was not asked. */
  readonly unasked: readonly Counted[];
  /** Why saved records, such as configs and providers, apply to neither side; null when they do, or when there is no store. */
  readonly recordsUnread: string | null;
}

/** Most classes, and most kinds of a change within one: callers choose the names of models. */
const maxClasses = 1000;
const maxKinds = 50;
/** Name in the log of a config that came with its request. */
const inlineConfig = 'inline';
/** Ways of requests that are remembered. */
const maxNamed = 10_000;

/** Members whose values are the text of a conversation, or long. */
const contents = new Set(['messages', 'input', 'contents', 'prompt', 'system', 'systemInstruction', 'tools']);
const longestValue = 60;

/** The two configurations; `probe` is the old one once more, so that trials use up no limit of `before`. */
export interface Sides {
  readonly before: Side;
  readonly after: Side;
  readonly probe: Side;
  /** Why records saved in the store apply to neither side; undefined when they do, or when there is no store. */
  readonly recordsUnread?: string | undefined;
}

/** Runs every request, oldest first, through both. `progress` is called with the number of those that are done. */
export async function compareRequests(
  requests: readonly RecordedRequest[],
  sides: Sides,
  progress: (done: number) => void,
): Promise<ChangeReport> {
  const classes = new Map<string, ClassTally>();
  const [notJudged, unasked] = [new Tally(), new Tally()];
  const named = new Map<string, Names | string>();
  let [done, changed, withoutBody] = [0, 0, 0];
  for (const request of requests) {
    progress(done++);
    const names = unfit(request) ?? (await namesOf(request, sides, named));
    if (typeof names === 'string') {
      notJudged.add(names, request.id);
      continue;
    }
    const old = await sides.before.judge(request, names);
    const next = await sides.after.judge(request, names);
    if (request.body === undefined && request.method !== 'GET') withoutBody += 1;
    for (const what of new Set([...old.unasked, ...next.unasked])) unasked.add(what, request.id);
    const key = [old.pipeline, request.method, request.path, old.wire, request.model, old.config].join('\n');
    let tally = classes.get(key);
    if (tally === undefined) {
      if (classes.size >= maxClasses) {
        notJudged.add(`there are more than ${maxClasses} classes of requests`, request.id);
        continue;
      }
      classes.set(key, (tally = new ClassTally(request, old)));
    }
    if (tally.add(request, old, next)) changed += 1;
  }
  const found = [...classes.values()].map((tally) => tally.result()).filter((one) => one.changed > 0);
  return {
    requests: requests.length,
    changed,
    classes: found.sort((one, other) => other.changed - one.changed),
    withoutBody,
    notJudged: notJudged.list(),
    unasked: unasked.list(),
    recordsUnread: sides.recordsUnread ?? null,
  };
}

/** Operations whose requests can be made up from a model when their body was not kept. */
const simple = new Set(['chat.completions', 'completions', 'embeddings', 'responses', 'messages']);

/** Why a request cannot run again; undefined when it can. */
function unfit({ source, endpoint, body, method, status, path }: RecordedRequest): string | undefined {
  if (source !== '') return 'it was reported to the gateway, not served by it';
  if (endpoint.startsWith('mcp')) return 'it is for an MCP server';
  if (status === 101) return 'it is a WebSocket';
  if (path.includes('***')) return 'its path was redacted';
  if (method === 'GET' || body !== undefined || simple.has(endpoint)) return undefined;
  return 'its body was not kept, or not whole';
}

/** Headers of the gateway, without their prefix. */
type Names = Readonly<Record<string, string>>;

/**
 * The headers that lead the request the recorded way: none where the configuration itself does, else the config or the
 * provider of the log. A sentence when neither does.
 */
async function namesOf(
  request: RecordedRequest,
  sides: Sides,
  known: Map<string, Names | string>,
): Promise<Names | string> {
  const { path, apiKeyId, config, provider, model } = request;
  const brought = config === inlineConfig && hasInlineConfig(request);
  const key = [path, apiKeyId, config, provider, model, brought].join('\n');
  const found = known.get(key) ?? (await findNames(request, sides));
  if (known.size < maxNamed) known.set(key, found);
  return found;
}

async function findNames(request: RecordedRequest, { probe, recordsUnread }: Sides): Promise<Names | string> {
  const { config, provider } = request;
  const own = await probe.judge(request, {});
  if (config === '' && provider === '') return {};
  if (config === '' ? own.target?.provider === provider : own.config === config) return {};
  const names: Names = config === '' ? { provider } : { config };
  const led = await probe.judge(request, names);
  // A plugin in front of the routing refuses it, now as then.
  const isHidden = led.refusal !== undefined && led.refusal.by !== 'provider';
  if (isHidden || (config === '' ? led.target?.provider === provider : led.config === config)) return names;
  if (config === inlineConfig) return unknownInline(request, own);
  const why = recordsUnread === undefined ? '' : ', and records saved in the store are not known';
  return config === ''
    ? `the current configuration does not lead it to the provider "${provider}" of its log${why}`
    : `its config "${config}" is not in force now${why}`;
}

/** Why the config that came with a request does not lead it. */
function unknownInline(request: RecordedRequest, { refusal }: Judgement): string {
  const came = 'its config came with the request';
  if (hasInlineConfig(request))
    return `${came}, and the current configuration refuses it (${refusalText(refusal)})`;
  if (request.headers === undefined) return `${came}, and neither bodies nor headers of it are in the log`;
  return `${came}, and the log does not keep it: it is longer than 4 KiB, called sensitive, or of an older version`;
}

/** Counts by words. */
class Tally {
  readonly #counts = new Map<string, { requests: number; readonly example: string }>();

  add(what: string, example: string): void {
    const found = this.#counts.get(what);
    if (found !== undefined) found.requests += 1;
    else if (this.#counts.size < maxKinds) this.#counts.set(what, { requests: 1, example });
    else this.add('(others)', example);
  }

  list(): Counted[] {
    return [...this.#counts]
      .map(([what, count]) => ({ what, ...count }))
      .sort((one, other) => other.requests - one.requests);
  }
}

class ClassTally {
  readonly #head: Pick<RequestClass, 'pipeline' | 'route' | 'wire' | 'model' | 'config'>;
  readonly #targets = new Map<string, { before: number; after: number }>();
  readonly #routed = new Tally();
  readonly #refusals = new Tally();
  readonly #parameters = new Tally();
  #requests = 0;
  #changed = 0;
  #before = 0;
  #after = 0;

  constructor({ method, path, model }: RecordedRequest, { pipeline, wire, config }: Judgement) {
    this.#head = { pipeline, route: `${method} ${path}`, wire, model, config };
  }

  /** Counts one request; true when something changes to it. */
  add({ id }: RecordedRequest, old: Judgement, next: Judgement): boolean {
    this.#requests += 1;
    const [from, to] = [targetText(old), targetText(next)];
    this.#count(from, 'before');
    this.#count(to, 'after');
    let isChanged = old.pipeline !== next.pipeline;
    if (isChanged) this.#routed.add('', id);
    const [was, is] = [refusalText(old.refusal), refusalText(next.refusal)];
    if (was !== is) {
      isChanged = true;
      const what =
        was === ''
          ? `are refused: ${is}${this.#leftOut(old, next)}`
          : is === ''
            ? `are no longer refused: ${was}`
            : `${is} instead of ${was}`;
      this.#refusals.add(what, id);
    } else if (from !== to) {
      isChanged = true;
      this.#routed.add('', id);
    }
    if (old.target !== undefined && next.target !== undefined) {
      const parameters = parameterChanges(old, next);
      for (const what of parameters) this.#parameters.add(what, id);
      isChanged ||= parameters.length > 0;
    }
    if (old.cost !== undefined && next.cost !== undefined) {
      this.#before += old.cost;
      this.#after += next.cost;
      isChanged ||= Math.abs(old.cost - next.cost) > 1e-9;
    }
    if (isChanged) this.#changed += 1;
    return isChanged;
  }

  /** What served requests that find no target any more, and their model where that is why. */
  #leftOut({ target, config }: Judgement, { refusal }: Judgement): string {
    if (target === undefined || refusal?.by !== 'provider') return '';
    const model = refusal.isForModel ? `the model "${this.#head.model}" is no longer served; ` : '';
    const led = config === '' ? '' : ` by the config ${config}`;
    return `: ${model}${model === '' ? 'they' : 'it'} went to ${target.provider}/${target.model}${led}`;
  }

  result(): RequestClass {
    return {
      ...this.#head,
      requests: this.#requests,
      changed: this.#changed,
      routed: this.#routed.list()[0],
      targets: [...this.#targets]
        .map(([target, shares]) => ({ target, ...shares }))
        .sort((one, other) => other.before - one.before),
      refusals: this.#refusals.list(),
      parameters: this.#parameters.list(),
      cost: { before: this.#before, after: this.#after },
    };
  }

  #count(target: string, side: 'before' | 'after'): void {
    if (target === '') return;
    const shares = this.#targets.get(target) ?? { before: 0, after: 0 };
    shares[side] += 1;
    if (this.#targets.size < maxKinds || this.#targets.has(target)) this.#targets.set(target, shares);
  }
}

function targetText({ target }: Judgement): string {
  return target === undefined ? '' : `${target.provider}/${target.model}`;
}

function refusalText(refusal: Refusal | undefined): string {
  if (refusal === undefined) return '';
  return `${refusal.status} ${refusal.code}${refusal.by === '' ? '' : ` by ${refusal.by}`}`;
}

/** Differences between the two bodies, and of what the wires drop. Texts of conversations are not shown. */
function parameterChanges(old: Judgement, next: Judgement): string[] {
  const changes: string[] = [];
  for (const name of next.dropped) if (!old.dropped.includes(name)) changes.push(`${name} is dropped`);
  for (const name of old.dropped)
    if (!next.dropped.includes(name)) changes.push(`${name} is no longer dropped`);
  if (old.sentPath !== next.sentPath) return changes;
  for (const name of new Set([...old.sent.keys(), ...next.sent.keys()])) {
    const [was, is] = [old.sent.get(name), next.sent.get(name)];
    if (was === is || name === 'model') continue;
    if (contents.has(name)) changes.push(`${name} differs`);
    else if (is === undefined) changes.push(`${name} is left out`);
    else if (was === undefined) changes.push(`${name} is set to ${shortened(is)}`);
    else changes.push(`${name} becomes ${shortened(is)} instead of ${shortened(was)}`);
  }
  return changes;
}

function shortened(text: string): string {
  return text.length > longestValue ? `${text.slice(0, longestValue)}…` : text;
}

/** Whether the log has the config that came with the request, its secrets masked. */
function hasInlineConfig({ headers = {} }: RecordedRequest): boolean {
  return Object.entries(headers).some(isInlineConfig);
}
