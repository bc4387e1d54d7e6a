import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { expectedKeyword } from './describe-schema.ts';
import { explain } from './explain.ts';
import type { Hide, Issue } from './issue.ts';
import { definitionsWithin, schemaObject, type SchemaObject } from './schema-object.ts';

/** How a checker behaves. */
interface CheckOptions {
  /**
   * For query strings and the like: texts become numbers, booleans and lists where the schema wants those, and
   * defaults are filled in, in the value itself. Default false: the value is not touched.
   */
  readonly coerce?: boolean;
  /**
   * Report every issue. Default false: stop at the first, which keeps the cost of a hostile value small. For what
   * strangers send leave it off, or set `most` as well.
   */
  readonly all?: boolean;
  /** How many of the errors are explained at most. Default: all of them. */
  readonly most?: number;
}

/**
 * Says what is wrong with a value; an empty list when nothing is. Values that must not be quoted in messages
 * are replaced by what `hide` says; by default nothing is hidden but what stands under a key like `api_key`.
 */
export type Checker = (value: unknown, hide?: Hide) => readonly Issue[];

/** Values under these names are secrets, also when they are written in the file itself. */
const secretName =
  /(^|[-_])(key|keys|secret|secrets|token|tokens|password|passwords|passphrase|authorization|cookie|service_account_json|access_key_id|external_id|secret_id|custom_headers)$/i;
const camelBoundary = /([a-z0-9])([A-Z])/g;

/** Whether what stands under this name (of a key, a header, a parameter) is a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(name.replace(camelBoundary, '$1_$2'));
}

/** Hides scalars that stand under a key whose name says that it is secret, or directly within such a list or object. */
export const hideSecrets: Hide = (path, value) => {
  if (typeof value === 'object' || value === undefined) return undefined;
  const [parent = '', name = ''] = path.split('/').slice(-2);
  return isSecretName(parent) || isSecretName(name) ? 'a value that is not shown' : undefined;
};

const none: readonly Issue[] = Object.freeze([]);

/** One ajv per behaviour, made on first use. */
const instances = new Map<string, Ajv2020>();

function instanceFor({ coerce = false, all = false }: CheckOptions): Ajv2020 {
  const identity = `${coerce}/${all}`;
  const present = instances.get(identity);
  if (present !== undefined) return present;
  const ajv = new Ajv2020({
    allErrors: all,
    // Errors carry the schema and value that they are about, which the sentences are made from.
    verbose: true,
    coerceTypes: coerce ? 'array' : false,
    useDefaults: coerce,
    // A misspelled keyword would otherwise check nothing. Not when filling in defaults: there it also refuses
    // a default within a union, which the other instances allow.
    strictSchema: !coerce,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    allowMatchingProperties: true,
    addUsedSchema: false,
    logger: false,
    // Its second passes over the code it writes take a third of the time of compiling; V8 makes them as well.
    code: { optimize: false },
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
    // ajv keeps every schema for good; plugins that are replaced bring new ones all the time.
    ajv.removeSchema(schema);
  }
}

const checkers = new WeakMap<object, Map<string, Checker>>();

/**
 * Compiles a schema (JSON Schema 2020-12, formats known) to a checker; the same schema object is compiled only
 * once. Throws an `Error` when the schema itself is wrong.
 * @example
 * const check = compileSchema(Type.Object({ limit: Type.Integer({ maximum: 100 }) }), { coerce: true });
 * const query = { limit: '500' };
 * check(query); // [{ path: '/limit', message: 'expected a whole number of at most 100, found 500', … }]
 */
export function compileSchema(schema: TSchema, options: CheckOptions = {}): Checker {
  const { most } = options;
  const identity = `${options.coerce ?? false}/${options.all ?? false}/${most ?? ''}`;
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

/** Validates against one branch of a union; compiled when it is first needed, for an explanation. */
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
