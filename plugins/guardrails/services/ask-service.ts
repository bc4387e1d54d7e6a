/** Asks services for checks: from a row of data to requests, and from answers to a verdict. */
import type { Credentials } from '../../../core/ports/credentials.ts';
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import { isAllowedIn } from '../../../core/ports/secret-managers.ts';
import { maySend, originOf } from '../../../core/providers/provider-row.ts';
import {
  type AnyCheck,
  type CheckResult,
  type CheckSubject,
  defineCheck,
  failed,
  type JsonObject,
  type JsonValue,
  passed,
  type Scope,
  skipped,
  Type,
} from '../../../core/pipeline/plugin.ts';
import { fetchWithin, mostBytes } from '../checks/calls.ts';
import { inTurns, messagesOf, strict, Timeout } from '../checks/shared.ts';
import {
  filled,
  filledText,
  findAt,
  firstAt,
  type Found,
  replaceTexts,
  type Template,
  valueAt,
  type Values,
} from './template.ts';
import { type Finding, type Need, serviceFields, type ServiceRow } from './service.ts';
import type { Static } from 'typebox';

/** Requests for one judgement, and how many of them are under way at once. */
const mostRequests = 100;
const mostAtOnce = 5;

/** The check of a row. */
export function serviceCheck(row: ServiceRow): AnyCheck {
  const { id, aliases, phases, replaces } = row;
  const where = 'Asks public addresses and `security.trusted_hosts` alone.';
  return defineCheck({
    id,
    ...(aliases !== undefined && { aliases }),
    description: `${row.description} ${where}`,
    phases,
    ...(replaces !== undefined && { changes: true as const }),
    // The parameter bounds each request.
    timeoutMs: 60_000,
    schema: parametersSchema(row),
    create(parameters, scope) {
      const service = new Service(row, parameters, scope);
      return (subject) => service.judge(subject);
    },
  });
}

/** A service as one guardrail asks it. */
class Service {
  readonly #row: ServiceRow;
  readonly #given: ServiceParameters & { readonly ofOperator?: boolean };
  readonly #parameters: JsonObject;
  readonly #scope: Scope;

  constructor(row: ServiceRow, given: ServiceParameters, scope: Scope) {
    this.#row = row;
    this.#given = given;
    this.#parameters = withDefaults(row.parameters, given);
    this.#scope = scope;
  }

  async judge(subject: CheckSubject): Promise<CheckResult> {
    const { replaces } = this.#row;
    if (replaces?.kind === 'context' && subject.endpoint === 'mcp')
      return skipped('A call of a tool has no conversation to put a text into.');
    const texts = subject.texts.filter(({ text }) => text !== '').map(({ text }) => text);
    if (texts.length === 0) return skipped('There is no text to look at.');
    const { when = ['redact'] } = replaces ?? {};
    const isWanted = when.length === 0 || when.some((name) => this.#parameters[name] === true);
    const isReplacing = replaces !== undefined && isWanted;
    let pieces = this.#row.asks === 'each' ? texts.map((text) => this.#cut(text)) : [[texts.join('\n')]];
    // The many texts of a tool's result are short: together they take few requests.
    if (pieces.length > mostRequests && !isReplacing) pieces = [this.#cut(texts.join('\n'))];
    const all = pieces.flat();
    if (all.length > mostRequests)
      throw new Error(`it would take ${all.length} requests, and ${mostRequests} are sent at most`);
    const values = await this.#values(subject, texts);
    const answers = await inTurns(all, (text) => this.#ask({ ...values, text }, subject), mostAtOnce);
    const found = answers.map((answer) => judgeAnswer(this.#row, answer, values));
    const findings = joined(found);
    if (!isReplacing) return this.#result(findings, false);
    const { isChanged, isWhole } = replaceTexts({ replaces, subject, answers, pieces, values });
    const isMended = isChanged && isWhole && !findings.lasting;
    return this.#result(isMended ? { ...findings, isFound: false } : findings, isChanged);
  }

  #result({ isFound, names, explanation }: Findings, isChanged: boolean): CheckResult {
    const [service = ''] = this.#row.id.split('.');
    const usual = isFound
      ? 'The service found something.'
      : isChanged
        ? 'The service changed something.'
        : 'The service found nothing.';
    const data = {
      explanation: explanation ?? usual,
      service,
      ...(names.length > 0 && { findings: [...names] }),
    };
    return isFound ? failed(data) : passed(data);
  }

  #cut(text: string): readonly string[] {
    const most = this.#row.mostCharacters ?? Infinity;
    const cut: string[] = [];
    for (let at = 0; at < text.length;) {
      let end = Math.min(text.length, at + most);
      // A pair of surrogates stays together.
      if (end < text.length && /[\ud800-\udbff]/.test(text.charAt(end - 1))) end -= 1;
      cut.push(text.slice(at, end));
      at = end;
    }
    return cut;
  }

  async #values(subject: CheckSubject, texts: readonly string[]): Promise<Values> {
    const { phase, json, model, provider, metadata, request, traceId } = subject;
    const messages = messagesOf(request.texts);
    const answer = phase === 'output' ? [{ role: 'assistant', content: subject.text }] : [];
    const values = {
      phase,
      texts,
      json,
      model: model === '' ? undefined : model,
      provider: provider.replace(/^@/, ''),
      metadata,
      traceId,
      messages,
      conversation: [...messages, ...answer],
      answer: phase === 'output' ? subject.text : undefined,
      request: { text: request.text, json: request.json },
      parameters: this.#parameters,
      credentials: await this.#credentials(subject),
    };
    return { ...values, derived: this.#row.derives?.(values) };
  }

  /** The credentials in clear. Throws an error that says which are missing, and no secret. */
  async #credentials({ caller }: CheckSubject): Promise<Values> {
    const { credentials: properties, credentialsIn } = this.#row;
    const names = Object.keys(properties);
    if (names.length === 0) return {};
    const given = Object(this.#given.credentials) as Readonly<Record<string, unknown>>;
    const own = (credentialsIn === undefined ? given : given[credentialsIn]) ?? {};
    const whole: Record<string, unknown> = withDefaults(properties, own);
    const missing = names.filter((name) => whole[name] === undefined && isRequired(properties[name]));
    if (missing.length > 0) {
      const member = credentialsIn === undefined ? 'credentials' : `credentials.${credentialsIn}`;
      throw new Error(
        `the check has no ${missing.map((name) => `${member}.${name}`).join(', ')}; give them to the check, or to the plugin "guardrails"`,
      );
    }
    for (const [name, value] of Object.entries(whole)) {
      if (isReference(value)) whole[name] = await this.#referred(value, caller, whole);
    }
    return whole;
  }

  #referred(
    { secret_reference: name, secret_key: key }: SecretReference,
    caller: CheckSubject['caller'],
    credentials: Values,
  ): string | Promise<string> {
    const { directory, secretManagers, secrets } = this.#scope;
    const reference = caller && directory.record('secret_reference', caller, name);
    if (caller === undefined || reference === undefined)
      throw new Error(`there is no secret reference "${name.slice(0, 64)}"`);
    if (!isAllowedIn(reference.data, caller.workspaceId))
      throw new Error(`the secret reference "${reference.slug}" is not for this workspace`);
    const base = this.#base({ credentials });
    if (!maySend(reference.data, originOf(base)))
      throw new Error(
        `the secret of "${reference.slug}" may not be sent to ${originOf(base).origin}; add the host to its allowed_hosts`,
      );
    return secretManagers.value(reference, secrets, key);
  }

  #base(values: Values): string {
    if (this.#given.baseURL !== undefined) return this.#given.baseURL.replace(/\/+$/, '');
    const credentials = Object(values['credentials']) as Values;
    for (const one of this.#row.base) {
      const base = typeof one === 'function' ? one(credentials) : filledText(one, values);
      if (base !== undefined) return base.replace(/\/+$/, '');
    }
    throw new Error('the address of the service is not known; its credentials do not say it');
  }

  async #ask(values: Values, { signal }: CheckSubject): Promise<JsonValue> {
    const { path, headers, body } = this.#row;
    const url = `${this.#base(values)}${filledText(path, values, encodeURIComponent) ?? ''}`;
    if (!URL.canParse(url)) throw new Error('the address of the service is no URL');
    const bytes = Buffer.from(writeJson(filled(body, values)), 'utf8');
    const sent = ['content-type', 'application/json', 'accept', 'application/json', 'user-agent', 'weir'];
    for (const [name, template] of Object.entries(headers)) {
      const value = filledText(template, values);
      if (value === undefined) continue;
      if (!/^[\x20-\x7e]*$/.test(value)) throw new Error(`the header ${name} would hold what no header can`);
      sent.push(name, value);
    }
    const credentials = this.#signing(values);
    const { origin, pathname, search } = new URL(url);
    const signable = { method: 'POST', origin, path: pathname + search, headers: sent, body: bytes };
    const signed = credentials === undefined ? [] : await credentials.authorize(signable);
    const answer = await fetchWithin(this.#scope, signal, {
      url,
      method: 'POST',
      headers: [...sent, ...signed],
      body: bytes,
      timeoutMs: this.#given.timeout ?? this.#row.timeoutMs ?? 5000,
      maxBytes: mostBytes,
      maxRedirects: 0,
    });
    if (answer.status < 200 || answer.status > 299)
      throw new Error(`the service answered with status ${answer.status}`);
    const json = parseJson(answer.body.toString('utf8'));
    if (json === undefined) throw new Error('the service answered with what is no JSON');
    return json;
  }

  #signing(values: Values): Credentials | undefined {
    const { signs } = this.#row;
    if (signs === undefined || filledText(signs.when, values) === undefined) return undefined;
    const fields: Record<string, string> = {};
    for (const [name, template] of Object.entries(signs.fields)) {
      const value = filledText(template, values);
      if (value !== undefined) fields[name] = value;
    }
    const machineIdentity = this.#given.ofOperator === true;
    return this.#scope.credentials.create(signs.kind, fields, { machineIdentity });
  }
}

interface SecretReference {
  readonly secret_reference: string;
  readonly secret_key?: string;
}

function isReference(value: unknown): value is SecretReference {
  return isJsonObject(value) && typeof value['secret_reference'] === 'string';
}

/** TypeBox marks optional members. */
function isRequired(schema: object | undefined): boolean {
  return schema !== undefined && !('~optional' in schema);
}

function joined(all: readonly Findings[]): Findings {
  return {
    isFound: all.some(({ isFound }) => isFound),
    lasting: all.some(({ lasting }) => lasting),
    names: [...new Set(all.flatMap(({ names }) => names))],
    explanation: all.find(({ isFound }) => isFound)?.explanation,
  };
}

/** Findings in an answer of a service. */
interface Findings {
  readonly isFound: boolean;
  /** There is a finding that new texts do not remove. */
  readonly lasting: boolean;
  /** Names of the findings; never a piece of a text. */
  readonly names: readonly string[];
  readonly explanation: string | undefined;
}

/** Longest name and explanation that are shown, and how many names. */
const longestName = 100;
const longestExplanation = 500;
const mostNames = 20;

/** Throws when the answer contains no judgement. */
function judgeAnswer(row: ServiceRow, answer: unknown, values: Values): Findings {
  for (const need of row.needs) requireThere(answer, need, values);
  const foundBy = (findings: readonly Finding[]) =>
    findings.flatMap((finding) =>
      matches(answer, finding, values).map((one) => ({ finding, name: nameOf(one, finding) })),
    );
  const found = foundBy(row.fails);
  const told = found.length === 0 ? found : [...found, ...foundBy(row.tells ?? [])];
  const said = row.explains === undefined ? undefined : firstAt(answer, row.explains);
  return {
    isFound: found.length > 0,
    lasting: found.some(({ finding: { mended } }) =>
      typeof mended === 'string' ? valueAt(values, mended) !== true : mended !== true,
    ),
    names: [...new Set(told.flatMap(({ name }) => name ?? []))].slice(0, mostNames),
    explanation: typeof said === 'string' && said !== '' ? said.slice(0, longestExplanation) : undefined,
  };
}

function requireThere(answer: unknown, { at, is, oneOf, with: members }: Need, values: Values): void {
  const found = at === '' ? [{ value: answer }] : findAt(answer, at);
  const names = members === undefined ? [] : listOf(filled(members, values));
  const fits = ({ value }: Pick<Found, 'value'>): boolean =>
    typeOf(value) === is &&
    oneOf?.includes(value) !== false &&
    names.every((name) => Object.hasOwn(Object(value) as object, name));
  if (found.length > 0 && found.every(fits)) return;
  const wanted = oneOf === undefined ? `a ${is}` : `one of ${oneOf.join(', ')}`;
  throw new Error(
    `the service did not judge: its answer has ${at === '' ? 'nothing' : `no "${at}"`} that is ${wanted}`,
  );
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'list';
  return value === null ? 'null' : typeof value;
}

function matches(answer: unknown, finding: Finding, values: Values): readonly Found[] {
  const { when, among, notBeginning } = finding;
  if (when !== undefined && valueAt(values, when) !== true) return [];
  const names = among === undefined ? undefined : listOf(filled(among, values));
  return findAt(answer, finding.at).filter((found) => {
    const name = nameOf(found, finding)?.toLowerCase() ?? '';
    if (names?.includes(name) === false) return false;
    if (notBeginning !== undefined && name.startsWith(notBeginning)) return false;
    return isMet(found.value, finding, values);
  });
}

function isMet(value: unknown, finding: Finding, values: Values): boolean {
  const { equals, differs, atLeast, above, isNotEmpty, isSet } = finding;
  if (isSet === true) return value !== undefined && value !== null && value !== false;
  if (isNotEmpty === true)
    return (
      (typeOf(value) === 'list' || typeOf(value) === 'object') &&
      Object.keys(Object(value) as object).length > 0
    );
  if (atLeast !== undefined) return typeof value === 'number' && value >= numberOf(atLeast, values);
  if (above !== undefined) return typeof value === 'number' && value > numberOf(above, values);
  if (differs !== undefined) return value !== differs;
  return value === equals;
}

/** The threshold; infinite where the parameters have none. */
function numberOf(template: Template, values: Values): number {
  const value = filled(template, values);
  return typeof value === 'number' ? value : Number(filledText(template, values) ?? Infinity);
}

function listOf(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.map((one) => String(one).toLowerCase());
}

function nameOf({ key, element, value }: Found, { at, named, called }: Finding): string | undefined {
  if (called !== undefined) return called;
  const name = named === undefined ? key : named === '.' ? value : valueAt(element, named);
  if (typeof name === 'string' && name !== '' && !/^\d+$/.test(name)) return name.slice(0, longestName);
  // For an element of a list, or a fixed place: the last member name in the path.
  return at.split('.').findLast((step) => !/^(\d+|\*)$/.test(step));
}

/** Parameters with the defaults of their schema. */
function withDefaults(properties: Readonly<Record<string, object>>, given: unknown): JsonObject {
  const whole: JsonObject = {};
  for (const [name, schema] of Object.entries(properties)) {
    if ('default' in schema) whole[name] = schema.default as JsonValue;
  }
  return isJsonObject(given) ? { ...whole, ...given } : whole;
}

/** Parameters of a service, as its check gets them. */
type ServiceParameters = Static<ReturnType<typeof parametersSchema>>;

/** All parameters of a row. */
function parametersSchema(row: ServiceRow) {
  const { parameters, credentials, timeoutMs = 5000 } = row;
  const wants = Object.keys(credentials).length > 0;
  return Type.Object(
    {
      ...parameters,
      ...(wants && {
        credentials: Type.Optional(
          Type.Unsafe<unknown>({
            ...serviceFields.credentials(row),
            description:
              'Credentials at the service. Encrypted when the guardrail is stored. Default: those that the operator set in the options of the plugin `guardrails`.',
          }),
        ),
      }),
      baseURL: Type.Optional(
        serviceFields.address(
          'URL that replaces the public address of the service; only public addresses and `security.trusted_hosts`.',
        ),
      ),
      timeout: Timeout(timeoutMs),
    },
    strict,
  );
}
