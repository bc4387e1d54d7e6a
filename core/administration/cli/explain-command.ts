import { describeValue } from '../../config/describe-schema.ts';
import type { LoadResult } from '../../config/load-config.ts';
import { formatProblem, isError, type Problem } from '../../config/problem.ts';
import { maxConfigFileBytes, readText } from '../../config/read-file.ts';
import { type GatewayConfig, servicePrefixes } from '../../config/schema.ts';
import { GatewayError, messageOf } from '../../errors/gateway-error.ts';
import { type OfflinePlan, planDocument } from '../../routing/explain/offline-plan.ts';
import type { SampleRequest } from '../../pipeline/router.ts';
import type { Checks } from '../../pipeline/plugin.ts';
import type { CompiledConfig } from '../../routing/plan/plan-node.ts';
import type { ExplainCommand } from './command-arguments.ts';
import path from 'node:path';
import { checkValue } from '../../config/check-value.ts';
import { nodeValue } from '../../config/config-node.ts';
import { type ConfigSource, createSource } from '../../config/config-source.ts';
import { parseYaml } from '../../config/parse-yaml.ts';
import { childPointer, isJsonObject, parseJson } from '../../base/json.ts';
import { problemOfConfig } from '../../lifecycle/check-configs.ts';
import { type RouteConfigInput, RouteConfigSchema } from '../../organisation/route-config.ts';
import { compileConfig, unknownConfig } from '../../routing/plan/compile-config.ts';
import { providerLookup } from '../../routing/plan/read-config.ts';
import { stringify } from 'lossless-json';
import { listWords, didYouMean, quoted } from '../../base/did-you-mean.ts';

type OfflineAttempt = OfflinePlan['attempts'][number];

/** Longest parameter value that is shown, in UTF-16 units. */
const maxValue = 200;

/** The plan for people. */
function explainText(plan: OfflinePlan): string {
  const { config, request, branches, attempts, refused, assumptions } = plan;
  const lines = [
    `Config    ${config.slug ?? 'as given'}`,
    `Request   ${request.method} ${request.path}`,
    '',
    ...branches.flatMap(branchLines),
    ...(branches.length > 0 ? [''] : []),
  ];
  if (refused !== undefined)
    lines.push(`The request is refused: ${refused.status} ${refused.code}. ${refused.message}`, '');
  lines.push(...attempts.flatMap((one, index) => [...attemptLines(one, index + 1), '']));
  return [...lines, ...assumptions].join('\n');
}

function branchLines({ path, mode, reason, random, candidates }: OfflinePlan['branches'][number]): string[] {
  const why = reason === undefined ? '' : ` (${reason})`;
  const chance = random ? ', by chance: this is one example' : '';
  return [`${path}: ${mode}${why}${chance}`, ...candidates.map((note) => candidateLine(note, mode))];
}

function candidateLine(
  { path, name, order, score, chance, skipped }: OfflinePlan['branches'][number]['candidates'][number],
  mode: string,
): string {
  const notes = [
    ...(score === undefined ? [] : [scoreText(score, mode)]),
    ...(chance === undefined ? [] : [`first in ${percentText(chance)} of all requests`]),
    ...(skipped === undefined ? [] : [`left out: ${skipped}`]),
  ];
  const label = name === undefined ? path : `${path} "${name}"`;
  const place = order === undefined ? '-' : String(order);
  return `  ${place.padStart(2)}  ${label}${notes.length === 0 ? '' : `  ${notes.join(', ')}`}`;
}

function scoreText(score: number, mode: string): string {
  if (mode === 'least-latency') return `${score.toFixed(0)} ms`;
  if (mode === 'least-cost') return `about $${score.toPrecision(3)}`;
  return mode === 'canary' ? `${score} %` : `weight ${score}`;
}

function percentText(chance: number): string {
  return `${Number((chance * 100).toFixed(1))} %`;
}

function attemptLines({ leaf, hedge, rules, target }: OfflineAttempt, order: number): string[] {
  const { params, retry, cache, breaker } = target;
  const where = target.host === '' ? '' : ` at ${target.host}`;
  const rows: [label: string, text: string][] = [
    ['provider', `${target.provider || 'that of the request'}${where}`],
    ['model', target.model],
    ['params', paramsText(params)],
    ['timeouts', timeoutsText(target)],
    ['retry', retry === undefined || retry.attempts === 0 ? 'none' : retryText(retry)],
    ['cache', cache === undefined ? 'as the cache plugin says' : cacheText(cache)],
    ['breaker', breaker === undefined ? '' : `opens after ${breaker.failureThreshold} failures`],
    ['hedge', hedge === undefined ? '' : hedgeText(hedge)],
    ['problem', target.problem ?? ''],
    ...rules.map((rule): [string, string] => ['failure', `if it fails with ${ruleText(rule)}`]),
  ];
  if (rules.length === 0) rows.push(['failure', 'the end: its failure is the answer']);
  const label = leaf.name === undefined ? leaf.path : `${leaf.path} "${leaf.name}"`;
  const shown = rows.filter(([, text]) => text !== '');
  return [`${order}. ${label}`, ...shown.map(([name, text]) => `   ${name.padEnd(9)} ${text}`)];
}

function ruleText({ statuses, by, then }: OfflineAttempt['rules'][number]): string {
  const what = statuses === undefined ? 'anything but 2xx' : listWords(statuses.map(String), 'or', 20);
  return `${what} → ${then} (${by})`;
}

function paramsText({ set, removed }: OfflineAttempt['target']['params']): string {
  const values = Object.entries(set).map(([name, value]) => {
    const text = stringify(value) ?? '';
    return `${name} = ${text.length > maxValue ? `${text.slice(0, maxValue)}…` : text}`;
  });
  const parts = [...(values.length === 0 ? [] : [`set ${values.join(', ')}`])];
  if (removed.length > 0) parts.push(`remove ${removed.join(', ')}`);
  return parts.join('; ');
}

function timeoutsText({
  requestTimeoutMs,
  firstTokenTimeoutMs,
  idleTimeoutMs,
}: OfflineAttempt['target']): string {
  const named = [
    ['request', requestTimeoutMs],
    ['first token', firstTokenTimeoutMs],
    ['idle', idleTimeoutMs],
  ] as const;
  const known = named.flatMap(([name, ms]) => (ms === undefined ? [] : [`${name} ${ms} ms`]));
  const rest = known.length === named.length ? [] : ['as the provider plugin says'];
  return [...known, ...rest].join(', ');
}

function retryText(retry: NonNullable<OfflineAttempt['target']['retry']>): string {
  const codes = listWords([...retry.onStatusCodes].map(String), 'or', 20);
  const waits = retry.useRetryAfter ? ', waiting as long as the answer asks' : '';
  const times = retry.attempts === 1 ? 'once' : `up to ${retry.attempts} times`;
  return `${times} on ${codes}${waits}`;
}

function cacheText({ mode, maxAgeMs, threshold }: NonNullable<OfflineAttempt['target']['cache']>): string {
  const age = maxAgeMs === undefined ? '' : `, ${maxAgeMs / 1000} s`;
  return `${mode}${age}${threshold === undefined ? '' : `, similar from ${threshold} on`}`;
}

function hedgeText({ afterMs, others }: NonNullable<OfflineAttempt['hedge']>): string {
  return `after ${afterMs} ms without an answer: ${others.map(({ path }) => path).join(', ')}`;
}

/** The plan for programs. */
function explainJson(plan: OfflinePlan): string {
  const { config, request, attempts } = plan;
  const { branches, tries, ...rest } = planDocument(plan);
  const hosts = attempts.map(({ target }) => target.host);
  const document = {
    config: config.id,
    request: { method: request.method, path: request.path },
    branches,
    tries: tries.map(({ option, name, provider, ...more }, index) => ({
      ...{ option, name, provider, host: hosts[index], ...more },
    })),
    ...rest,
  };
  return stringify(document, null, 2) ?? '';
}

/** Outside dependencies of `runExplainCommand`. */
export interface ExplainTools {
  /** The named file, or the default one. */
  configFile(named: string | undefined): string;
  load(file: string): Promise<LoadResult>;
  /** Rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
  /** The checks of guardrails; those of plugins whose code does not run are assumed to exist. */
  checks(config: GatewayConfig): Checks;
  /** Computes the plan. Throws a `GatewayError` for an unusable request. */
  plan(request: SampleRequest, config: CompiledConfig, gateway: GatewayConfig): Promise<OfflinePlan>;
  print(text: string): void;
  complain(text: string): void;
}

/** Largest request file, in bytes. */
const maxRequestBytes = 64 * 1024 * 1024;

/** Runs `weir explain …`. Resolves to its exit code: 0, or 1 when the config or the request is unusable. */
export async function runExplainCommand(command: ExplainCommand, tools: ExplainTools): Promise<number> {
  const loaded = await tools.load(tools.configFile(command.file));
  if (!loaded.ok) return report(loaded.problems, tools);
  const found = await findConfig(command.config, {
    loaded,
    providerNames: tools.providerNames,
    checks: tools.checks(loaded.config),
  });
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

async function readRequest(file: string): Promise<SampleRequest | string> {
  const read = await readText(file, maxRequestBytes);
  if (!read.ok) return read.message;
  try {
    return readRequestFile(read.text);
  } catch (error) {
    return messageOf(error);
  }
}

function report(problems: readonly Problem[], { complain }: ExplainTools): number {
  for (const problem of problems) complain(formatProblem(problem));
  return problems.some(isError) ? 1 : 0;
}

/** Configuration in which a config is looked up or compiled. */
interface ConfigPlace {
  readonly loaded: Extract<LoadResult, { ok: true }>;
  /** Rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
  readonly checks: Checks;
}

/** A config, undefined when it is unusable, with its problems. */
interface FoundConfig {
  readonly config: CompiledConfig | undefined;
  readonly problems: readonly Problem[];
}

interface Written {
  readonly input: RouteConfigInput;
  /** Pointer to it in its source. */
  readonly base: string;
  readonly source: ConfigSource;
  readonly slug: string | undefined;
}

/** Finds a config by its slug, in a file, or in the text itself (`{ … }`), and compiles it. */
async function findConfig(named: string, place: ConfigPlace): Promise<FoundConfig> {
  const { config, source } = place.loaded;
  if (named.trimStart().startsWith('{'))
    return configOfText(named, { path: '--config', name: '--config' }, place);
  const input = Object.hasOwn(config.configs, named) ? config.configs[named] : undefined;
  if (input !== undefined)
    return compiled({ input, base: childPointer('/configs', named), source, slug: named }, place);
  const read = await readText(named, maxConfigFileBytes);
  if (read.ok) return configOfText(read.text, { path: path.resolve(named), name: named }, place);
  const isFile = /[/\\]|\.(?:json|ya?ml)$/i.test(named);
  const message = isFile ? read.message : `${unknownConfig(named, Object.keys(config.configs))}, and no file`;
  return failedConfig([{ file: isFile ? named : '--config', line: 0, column: 0, path: '', message }]);
}

function configOfText(text: string, file: { path: string; name: string }, place: ConfigPlace): FoundConfig {
  const { root, problems } = parseYaml(text, file);
  if (root === undefined)
    return failedConfig(
      problems.length > 0
        ? problems
        : [{ file: file.name, line: 0, column: 0, path: '', message: 'is empty; write a config' }],
    );
  const source = createSource(root, { files: [file.path], digest: '' });
  const checked = checkValue(RouteConfigSchema, nodeValue(root), { pointer: '', source });
  if (checked.problems.some(isError)) return failedConfig(checked.problems);
  return compiled({ input: checked.value as RouteConfigInput, base: '', source, slug: undefined }, place);
}

function compiled(
  { input, base, source, slug }: Written,
  { loaded, providerNames, checks }: ConfigPlace,
): FoundConfig {
  const { configs, providers, server } = loaded.config;
  const result = compileConfig(input, {
    id: slug ?? 'inline',
    slug,
    configs: new Map(Object.entries(configs)),
    servicePrefixes: servicePrefixes(server),
    checks,
    knowsProvider: providerLookup({ builtIn: providerNames, configured: Object.keys(providers) }),
  });
  const warnings = result.warnings.map((issue): Problem => ({
    ...problemOfConfig(issue, base, source),
    severity: 'warning',
  }));
  if (result.ok) return { config: result.config, problems: warnings };
  return failedConfig([...result.issues.map((issue) => problemOfConfig(issue, base, source)), ...warnings]);
}

function failedConfig(problems: readonly Problem[]): FoundConfig {
  return { config: undefined, problems };
}

const members = ['method', 'path', 'headers', 'body'];

/** Reads `{ method?, path?, headers?, body? }`; by default a POST of `/v1/chat/completions`. Throws an error that names the problem. */
function readRequestFile(text: string): SampleRequest {
  const value = parseJson(text);
  if (!isJsonObject(value))
    throw new Error('is no JSON object; write { "path": "/v1/chat/completions", "headers": {}, "body": {} }');
  const stray = Object.keys(value).find((name) => !members.includes(name));
  if (stray !== undefined) {
    const near = didYouMean(stray, members);
    const hint =
      near === undefined ? 'a body as clients send it stands under "body"' : `did you mean ${quoted(near)}?`;
    throw new Error(`holds ${quoted(stray)}, and a request has ${members.join(', ')}; ${hint}`);
  }
  const { method = 'POST', path = '/v1/chat/completions', headers = {}, body } = value;
  if (typeof method !== 'string') throw new Error(`"method" is a text, not ${describeValue(method)}`);
  if (typeof path !== 'string' || !path.startsWith('/'))
    throw new Error('"path" is a text that begins with "/"');
  if (!isJsonObject(headers)) throw new Error(`"headers" is an object, not ${describeValue(headers)}`);
  return {
    method: method.toUpperCase(),
    path,
    headers: textsOf(headers),
    body: body,
  };
}

/** Headers as texts. An object, such as metadata, becomes its JSON. */
function textsOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (isJsonObject(value)) texts[name] = JSON.stringify(value);
    else if (typeof value === 'string') texts[name] = value;
    else if (typeof value === 'number' || typeof value === 'boolean') texts[name] = String(value);
    else throw new Error(`the header ${quoted(name)} is a text, not ${describeValue(value)}`);
  }
  return texts;
}
