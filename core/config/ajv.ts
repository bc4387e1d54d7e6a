import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { linearPattern } from '../base/linear-pattern.ts';
import {
  chooseBranch,
  coerceText,
  describeSchema,
  describeValue,
  expectedKeyword,
  allowedValues,
  definitionsWithin,
  requiredKeys,
  resolveReference,
  schemaMap,
  schemaObject,
  type SchemaObject,
  schemaTypes,
  unionBranches,
} from './describe-schema.ts';
import { type Hide, type Issue, unknownKeyIssue } from './issue.ts';
import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import { childPointer, isJsonObject } from '../base/json.ts';

/** Options of a checker. */
interface CheckOptions {
  /**
   * For query strings and the like: converts texts to numbers, booleans and lists where the schema asks for them, and
   * fills in defaults, in the value itself. Default false: the value stays unchanged.
   */
  readonly coerce?: boolean;
  /**
   * Report every issue. Default false: stop at the first, which bounds the cost of a hostile value. For untrusted input
   * leave it off, or set `most` too.
   */
  readonly all?: boolean;
  /** Upper bound of explained errors. Default: all. */
  readonly most?: number;
  /**
   * For schemas that others wrote: keywords and formats that are not known check nothing, and patterns take time in
   * proportion to the text; one that cannot (it looks ahead) checks nothing. Default false.
   */
  readonly foreign?: boolean;
}

/**
 * Lists the issues of a value; empty for a valid one. `hide` replaces values that messages must not quote; by default
 * those under a key like `api_key`.
 */
export type Checker = (value: unknown, hide?: Hide) => readonly Issue[];

/** Values under these names are secrets, even when written in the file itself. */
const secretName =
  /(^|[-_])(key|keys|secret|secrets|token|tokens|password|passwords|passphrase|authorization|cookie|service_account_json|access_key_id|external_id|secret_id|custom_headers)$/i;
const camelBoundary = /([a-z0-9])([A-Z])/g;

/** Whether the value under this name (of a key, a header, a parameter) is a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(name.replace(camelBoundary, '$1_$2'));
}

/** Hides scalars under a key with a secret name, or directly within such a list or object. */
export const hideSecrets: Hide = (path, value) => {
  if (typeof value === 'object' || value === undefined) return undefined;
  const [parent = '', name = ''] = path.split('/').slice(-2);
  return isSecretName(parent) || isSecretName(name) ? 'a value that is not shown' : undefined;
};

const none: readonly Issue[] = Object.freeze([]);

/** One ajv per set of options, made on first use. */
const instances = new Map<string, Ajv2020>();

/** Most steps of one expression in a foreign schema. */
const mostSteps = 10_000;

const linearRegExp = Object.assign(
  (source: string) => {
    const pattern = linearPattern(source, mostSteps);
    const test = typeof pattern === 'string' ? () => true : (text: string) => pattern.test(text);
    // ajv tells expressions apart by this text.
    return { test, toString: () => source };
  },
  { code: 'linearRegExp' },
);

function instanceFor({ coerce = false, all = false, foreign = false }: CheckOptions): Ajv2020 {
  const identity = `${coerce}/${all}/${foreign}`;
  const present = instances.get(identity);
  if (present !== undefined) return present;
  const ajv = new Ajv2020({
    allErrors: all,
    // Errors carry their schema and value, from which the sentences are made.
    verbose: true,
    coerceTypes: coerce ? 'array' : false,
    useDefaults: coerce,
    // A misspelled keyword would otherwise check nothing. Off when filling in defaults: there it also refuses a default
    // within a union.
    strictSchema: !coerce && !foreign,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    allowMatchingProperties: true,
    addUsedSchema: false,
    logger: false,
    // ajv's optimising passes take a third of the compile time, and V8 optimises anyway.
    code: { optimize: false, ...(foreign && { regExp: linearRegExp }) },
  });
  ajvFormats.default(ajv);
  ajv.addVocabulary([expectedKeyword]);
  instances.set(identity, ajv);
  return ajv;
}

function compile(ajv: Ajv2020, schema: SchemaObject): ValidateFunction {
  try {
    return ajv.compile(schema);
  } finally {
    // ajv keeps every schema for good, and replaced plugins keep bringing new ones.
    ajv.removeSchema(schema);
  }
}

const checkers = new WeakMap<object, Map<string, Checker>>();

/**
 * Compiles a schema (JSON Schema 2020-12, with formats) to a checker; each schema object is compiled once. Throws an
 * `Error` when the schema itself is wrong.
 * @example
 * const check = compileSchema(Type.Object({ limit: Type.Integer({ maximum: 100 }) }), { coerce: true });
 * const query = { limit: '500' };
 * check(query); // [{ path: '/limit', message: 'expected a whole number of at most 100, found 500', … }]
 */
export function compileSchema(schema: TSchema, options: CheckOptions = {}): Checker {
  const { coerce = false, all = false, foreign = false, most } = options;
  const identity = `${coerce}/${all}/${foreign}/${most ?? ''}`;
  const compiled = checkers.get(schema) ?? new Map<string, Checker>();
  checkers.set(schema, compiled);
  const present = compiled.get(identity);
  if (present !== undefined) return present;
  const ajv = instanceFor(options);
  const root = schemaObject(schema);
  const validate = compile(ajv, root);
  const check = branchChecker(ajv, root);
  const checker: Checker = (value, hide = hideSecrets) =>
    validate(value) ? none : explain((validate.errors ?? []).slice(0, most), { root, check, hide });
  compiled.set(identity, checker);
  return checker;
}

/** Validates against one branch of a union; compiled at the first explanation that needs it. */
function branchChecker(
  ajv: Ajv2020,
  root: SchemaObject,
): (branch: SchemaObject, value: unknown) => readonly ErrorObject[] {
  const compiled = new WeakMap<object, ValidateFunction>();
  return (branch, value) => {
    let validate = compiled.get(branch);
    if (validate === undefined) {
      const definitions = Object.fromEntries(definitionsWithin(root));
      validate = compile(ajv, { $defs: definitions, allOf: [branch] });
      compiled.set(branch, validate);
    }
    return validate(value) ? [] : (validate.errors ?? []);
  };
}

/** Context for explaining validation errors. */
interface ExplainContext {
  /** The whole schema, in which references resolve. */
  readonly root: SchemaObject;
  /** Validates a value against one branch of a union. */
  readonly check: (branch: SchemaObject, value: unknown) => readonly ErrorObject[];
  readonly hide: Hide;
}

/**
 * Converts ajv's errors (`verbose`) to issues: the expected and the found value, one per place. For a union it explains
 * only the most probable branch.
 */
function explain(errors: readonly ErrorObject[], context: ExplainContext, base = ''): Issue[] {
  const issues = withoutBranchErrors(errors, context.root).flatMap((error) =>
    explainOne(error, context, base + error.instancePath),
  );
  const wrongType = new Set(issues.filter(({ keyword }) => keyword === 'type').map(({ path }) => path));
  const seen = new Set<string>();
  return issues.filter(({ path, message, keyword, part }) => {
    if (part === 'value' && keyword !== 'type' && wrongType.has(path)) return false;
    const identity = `${path}\n${message}`;
    return !seen.has(identity) && seen.add(identity);
  });
}

const unionKeywords = new Set(['anyOf', 'oneOf']);

/** ajv lists the errors of all branches before that of the union; only the latter is kept. */
function withoutBranchErrors(errors: readonly ErrorObject[], root: SchemaObject): ErrorObject[] {
  const kept: ErrorObject[] = [];
  for (const error of errors) {
    if (unionKeywords.has(error.keyword)) {
      const inside = schemasWithin(schemaObject(error.parentSchema), error.keyword, root);
      const below = (path: string): boolean =>
        path === error.instancePath || path.startsWith(`${error.instancePath}/`);
      for (let last = kept.at(-1); last !== undefined; last = kept.at(-1)) {
        if (!inside.has(last.parentSchema) || !below(last.instancePath)) break;
        kept.pop();
      }
    }
    // The errors of the applied branch are listed separately.
    if (error.keyword !== 'if') kept.push(error);
  }
  return kept;
}

/** Every schema object within the branches of a union, with references followed. */
function schemasWithin(schema: SchemaObject, keyword: string, root: SchemaObject): Set<unknown> {
  const found = new Set<unknown>();
  const pending: unknown[] = [schema[keyword]];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (typeof next !== 'object' || next === null || found.has(next)) continue;
    found.add(next);
    if (isJsonObject(next)) pending.push(resolveReference(next, root));
    const members: unknown[] = Object.values(next);
    for (const member of members) pending.push(member);
  }
  return found;
}

function explainOne(error: ErrorObject, context: ExplainContext, path: string): Issue[] {
  const { keyword } = error;
  const schema = schemaObject(error.parentSchema);
  const params: Readonly<Record<string, unknown>> = isJsonObject(error.params) ? error.params : {};
  const issue = (message: string): Issue[] => [{ path, message, part: 'value', keyword }];
  if (keyword === 'required' || keyword === 'dependentRequired')
    return missing(params, { schema, path, context });
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties') {
    const key = String(params.additionalProperty ?? params.unevaluatedProperty);
    const present = new Set(isJsonObject(error.data) ? Object.keys(error.data) : []);
    const known = schemaMap(schema, 'properties').keys();
    return [unknownKeyIssue(childPointer(path, key), key, { known, present })];
  }
  if (keyword === 'propertyNames') {
    const name = String(params.propertyName);
    return [
      {
        path: childPointer(path, name),
        message: `${quoted(name)} is no allowed name here`,
        part: 'key',
        keyword,
      },
    ];
  }
  if (error.propertyName !== undefined) return [];
  if (unionKeywords.has(keyword)) return explainUnion(error, context, path);
  if (keyword === 'uniqueItems') {
    const positions = [Number(params.i) + 1, Number(params.j) + 1].sort((a, b) => a - b);
    return issue(`items ${positions.join(' and ')} are the same; keep one`);
  }
  // `x-expected` replaces `not`, where its schema has it. The value is not quoted: it may be a secret.
  const instead = keyword === 'not' ? schemaObject(schema.not)[expectedKeyword] : undefined;
  if (typeof instead === 'string') return issue(`expected ${instead}`);
  if (['not', 'contains', 'false schema'].includes(keyword))
    return issue(`this value ${error.message ?? 'is not allowed'}`);
  return [expectation(schema, error.data, { path, context, keyword })];
}

function missing(
  params: Readonly<Record<string, unknown>>,
  { schema, path, context }: { schema: SchemaObject; path: string; context: ExplainContext },
): Issue[] {
  const key = String(params.missingProperty);
  const property = schemaMap(schema, 'properties').get(key);
  const expected = property === undefined ? '' : `: ${describeSchema(property, context.root)}`;
  const absolute = childPointer(path, key);
  const reason = typeof params.property === 'string' ? ` (because of ${quoted(params.property)})` : '';
  return [
    {
      path: absolute,
      message: `missing key ${quoted(key)}${reason}${expected}`,
      part: 'key',
      keyword: 'required',
      missing: [absolute],
    },
  ];
}

function expectation(
  schema: SchemaObject,
  value: unknown,
  { path, context, keyword }: { path: string; context: ExplainContext; keyword: string },
): Issue {
  const hidden = context.hide(path, value);
  const found = hidden ?? describeValue(value);
  const mayShow = hidden === undefined || typeof value !== 'string';
  const remedy = mayShow && keyword === 'type' ? typeRemedy(schema, value) : '';
  const allowed = allowedValues(schema)?.filter((each) => typeof each === 'string') ?? [];
  const suggestion =
    typeof value === 'string' && hidden === undefined ? didYouMean(value, allowed) : undefined;
  const meant = suggestion === undefined ? remedy : `; did you mean ${quoted(suggestion)}?`;
  return {
    path,
    message: `expected ${describeSchema(schema, context.root)}, found ${found}${meant}`,
    part: 'value',
    keyword,
  };
}

function explainUnion(error: ErrorObject, context: ExplainContext, path: string): Issue[] {
  const schema = schemaObject(error.parentSchema);
  const union: SchemaObject = { [error.keyword]: schema[error.keyword] };
  const branches = unionBranches(union).map((branch) => resolveReference(branch, context.root));
  if (branches.every(onlyRequires)) return missingOneOf(branches.flatMap(requiredKeys), error, path);
  const value: unknown = error.data;
  const branch = chooseBranch(branches, value, { root: context.root, coercible: false });
  if (branch !== undefined && allowedValues(branch) === undefined) {
    const inner = explain(context.check(branch, value), context, path);
    if (inner.length > 0) return inner;
  }
  // No branch fits, or the branches are plain values: list all possibilities.
  const constants = branches.flatMap((each) => allowedValues(each) ?? []);
  const described = { ...union, [error.keyword]: schema[error.keyword], 'x-expected': schema['x-expected'] };
  const issue = expectation(described, value, {
    path,
    context,
    keyword: branch === undefined ? 'type' : error.keyword,
  });
  const strings = constants.filter((each) => typeof each === 'string');
  const suggestion =
    typeof value === 'string' && context.hide(path, value) === undefined
      ? didYouMean(value, strings)
      : undefined;
  return [
    suggestion === undefined
      ? issue
      : { ...issue, message: `${issue.message}; did you mean ${quoted(suggestion)}?` },
  ];
}

/** True for a branch that only requires keys. */
function onlyRequires(branch: SchemaObject): boolean {
  const rest = Object.keys(branch).filter((keyword) => !['required', 'properties', 'type'].includes(keyword));
  const members = [...schemaMap(branch, 'properties').values()];
  return (
    requiredKeys(branch).length > 0 &&
    rest.length === 0 &&
    members.every((member) => Object.keys(member).length === 0)
  );
}

function missingOneOf(keys: readonly string[], error: ErrorObject, path: string): Issue[] {
  const issue = { path, part: 'key', keyword: 'required' } as const;
  const present = keys.filter((key) => isJsonObject(error.data) && key in error.data);
  if (present.length > 1) {
    const names = listWords(present.map(quoted), 'and');
    return [{ ...issue, message: `only one of the keys ${names} may be given; remove the others` }];
  }
  const message = `one of the keys ${listWords(keys.map(quoted), 'or')} is missing`;
  return [{ ...issue, message, missing: keys.map((key) => childPointer(path, key)) }];
}

/** Remedy for a value of the wrong type, when it is clear; else an empty text. */
function typeRemedy(schema: SchemaObject, value: unknown): string {
  const types = schemaTypes(schema);
  if (value === null) return '; give it a value or remove the key';
  if (typeof value === 'string') {
    const spelled = types.find((type) => coerceText(value, type) !== undefined);
    return spelled === undefined ? '' : '; remove the quotes';
  }
  const scalar = typeof value === 'number' || typeof value === 'boolean';
  return scalar && types.includes('string') ? '; put it in quotes' : '';
}
