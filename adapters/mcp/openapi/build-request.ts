import { isJsonObject, writeJson } from '../../../core/base/json.ts';
import { quoted } from '../../../core/base/did-you-mean.ts';
import { type JsonRecord } from './document.ts';
import type { CallPlan } from './catalogue.ts';
import type { BodyPlan, ParameterPlan, ValueStyle } from './read-arguments.ts';

/** Deepest object of `deepObject`. */
const maxDepth = 8;
/** Longest path with its query, in characters. */
const maxPath = 32_768;

/** A request to the API, below its origin. */
export interface ApiRequest {
  readonly method: string;
  /** Path and query, as they go on the wire. */
  readonly path: string;
  /** Of the arguments, and the type of the body. */
  readonly headers: readonly string[];
  readonly body: Buffer | null;
}

/** An argument that fits its schema and cannot be sent; the message names it. */
export class ArgumentRefused extends Error {}

/**
 * Writes a call as a request. Arguments stay within their own segment of the path, their own parameter of the query, and
 * their own header. Throws `ArgumentRefused`.
 */
export function buildRequest(plan: CallPlan, base: URL, args: JsonRecord): ApiRequest {
  const given = (where: ParameterPlan['in']): GivenParameter[] =>
    plan.parameters.flatMap((parameter) => {
      const value = Object.hasOwn(args, parameter.argument) ? args[parameter.argument] : undefined;
      const isAbsent = parameter.in !== where || value === undefined || value === null;
      return isAbsent ? [] : [{ parameter, value }];
    });
  const path = base.pathname.replace(/\/+$/, '') + filledPath(plan.path, given('path'));
  const pairs = given('query').flatMap(({ parameter, value }) => queryPairs(parameter, value));
  const query = [base.search.slice(1), ...pairs].filter((part) => part !== '').join('&');
  const whole = query === '' ? path : `${path}?${query}`;
  if (whole.length > maxPath)
    throw new ArgumentRefused(`The arguments make a URL of more than ${maxPath} characters.`);
  const headers = given('header').flatMap(({ parameter, value }) => [
    parameter.name.toLowerCase(),
    headerText(parameter, value),
  ]);
  const body = bodyOf(plan.body, args);
  if (body !== null) headers.push('content-type', plan.body?.contentType ?? '');
  return { method: plan.method, path: whole, headers, body };
}

interface GivenParameter {
  readonly parameter: ParameterPlan;
  readonly value: unknown;
}

function refused(argument: string, reason: string): ArgumentRefused {
  return new ArgumentRefused(`The argument ${quoted(argument)} ${reason}.`);
}

/** Each name replaced by its value; the number of segments stays. */
function filledPath(template: string, given: readonly GivenParameter[]): string {
  const values = new Map(given.map((one) => [one.parameter.name, one]));
  const segments = template.split('/').map((segment) => {
    let last = '';
    const filled = segment.replace(/\{([^{}/]*)\}/g, (_, name: string) => {
      const one = values.get(name);
      if (one === undefined) throw refused(name, 'is missing: it is part of the path');
      last = one.parameter.argument;
      return pathText(one);
    });
    if (last !== '' && /^\.{0,2}$/.test(filled))
      throw refused(last, 'is no segment of a path; give it another value');
    return filled;
  });
  return segments.join('/');
}

function pathText({ parameter, value }: GivenParameter): string {
  const { argument, explode, isJson } = parameter;
  if (isJson) return encoded(argument, writeJson(value));
  const text = (one: unknown): string => {
    const plain = scalarText(one);
    if (hasDotSegment(plain))
      throw refused(argument, 'holds "." or ".." as part of a path, which is refused');
    return encoded(argument, plain);
  };
  if (Array.isArray(value)) return value.map(text).join(',');
  if (isJsonObject(value))
    return Object.entries(value)
      .map(([name, one]) => `${text(name)}${explode ? '=' : ','}${text(one)}`)
      .join(',');
  return text(value);
}

/** Also behind encodings: servers that decode twice would leave the path. */
function hasDotSegment(text: string): boolean {
  let decoded = text;
  for (let times = 0; times < 3; times += 1) {
    if (decoded.split(/[/\\]/).some((part) => part === '.' || part === '..')) return true;
    decoded = decoded.replace(/%(2e|2f|5c|25)/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
  }
  return false;
}

/** `name=value` for each parameter of the query that the argument becomes, encoded. */
function queryPairs(
  { argument, name, isJson, members, ...style }: ParameterPlan,
  value: unknown,
): readonly string[] {
  const key = encoded(argument, name);
  if (isJson) return [`${key}=${encoded(argument, writeJson(value))}`];
  if (style.style === 'form' && style.explode && isJsonObject(value)) {
    const allowed = new Set(members);
    const unknown = Object.keys(value).find((member) => !allowed.has(member));
    if (unknown !== undefined) throw refused(argument, `has no member ${quoted(unknown)}`);
    return Object.entries(value).flatMap(([member, one]) =>
      valuePairs(argument, encoded(argument, member), one, style),
    );
  }
  return valuePairs(argument, key, value, style);
}

/** Pairs of one key, which is encoded. */
function valuePairs(
  argument: string,
  key: string,
  value: unknown,
  { style, explode }: ValueStyle,
): readonly string[] {
  const text = (one: unknown): string => encoded(argument, scalarText(one));
  if (style === 'deepObject') return deepPairs(argument, key, value);
  if (Array.isArray(value)) {
    if (value.length === 0) return [];
    if (explode) return value.map((one) => `${key}=${text(one)}`);
    return [`${key}=${value.map(text).join(separators[style])}`];
  }
  if (isJsonObject(value) && !explode) {
    const flat = Object.entries(value).flat();
    return flat.length === 0 ? [] : [`${key}=${flat.map(text).join(separators[style])}`];
  }
  return value === null ? [] : [`${key}=${text(value)}`];
}

const separators = { simple: ',', form: ',', spaceDelimited: '%20', pipeDelimited: '%7C' } as const;

/** `key[member]=value`; `key[]=value` for each item of a list. */
function deepPairs(argument: string, key: string, value: unknown, depth = 0): readonly string[] {
  if (depth > maxDepth) throw refused(argument, `is nested more than ${maxDepth} deep`);
  if (Array.isArray(value)) return value.flatMap((one) => deepPairs(argument, `${key}[]`, one, depth + 1));
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([member, one]) => {
      if (/[[\]]/.test(member))
        throw refused(argument, `has a member ${quoted(member)}, which holds a bracket`);
      return deepPairs(argument, `${key}[${encoded(argument, member)}]`, one, depth + 1);
    });
  return value === null ? [] : [`${key}=${encoded(argument, scalarText(value))}`];
}

function headerText({ argument, explode, isJson }: ParameterPlan, value: unknown): string {
  const text = isJson ? writeJson(value) : joined(value, explode);
  // Node refuses what else a header cannot hold.
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text))
    throw refused(
      argument,
      'goes into a header, which holds no line breaks and no characters beyond Latin-1',
    );
  return text.trim();
}

function joined(value: unknown, explode: boolean): string {
  if (Array.isArray(value)) return value.map(scalarText).join(',');
  if (!isJsonObject(value)) return scalarText(value);
  return Object.entries(value)
    .map(([name, one]) => `${name}${explode ? '=' : ','}${scalarText(one)}`)
    .join(',');
}

function bodyOf(plan: BodyPlan | undefined, args: JsonRecord): Buffer | null {
  if (plan === undefined || !Object.hasOwn(args, plan.argument)) return null;
  const { argument, form } = plan;
  const value = args[argument];
  if (form === undefined) return Buffer.from(writeJson(value));
  if (!isJsonObject(value)) throw refused(argument, 'is sent as a form and must be an object');
  const pairs = Object.entries(value).flatMap(([name, one]) => {
    const fallback = { style: isJsonObject(one) ? 'deepObject' : 'form', explode: true } as const;
    const style = Object.hasOwn(form, name) ? (form[name] ?? fallback) : fallback;
    return valuePairs(argument, encoded(argument, name), one, style);
  });
  return Buffer.from(pairs.join('&'));
}

/** Text of a value that stands for itself; JSON of a list or an object. */
function scalarText(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' && value !== null ? writeJson(value) : String(value);
}

/** Everything but letters, digits, `-`, `.`, `_` and `~` is escaped. */
function encoded(argument: string, text: string): string {
  try {
    return encodeURIComponent(text).replace(
      /[!'()*]/g,
      (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  } catch {
    throw refused(argument, 'holds half a character (an unpaired surrogate)');
  }
}
