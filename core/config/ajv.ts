import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { linearPattern } from '../base/linear-pattern.ts';
import { expectedKeyword } from './describe-schema.ts';
import { explain } from './explain.ts';
import type { Hide, Issue } from './issue.ts';
import { definitionsWithin, schemaObject, type SchemaObject } from './schema-object.ts';

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
