import type { ErrorObject } from 'ajv';
import { describeSchema, describeValue, expectedKeyword, typeRemedy } from './describe-schema.ts';
import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import { type Hide, type Issue, unknownKeyIssue } from './issue.ts';
import { childPointer } from '../base/pointer.ts';
import { chooseBranch } from './schema-branch.ts';
import {
  allowedValues,
  isObject,
  requiredKeys,
  resolveReference,
  schemaMap,
  schemaObject,
  unionBranches,
  type SchemaObject,
} from './schema-object.ts';

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
export function explain(errors: readonly ErrorObject[], context: ExplainContext, base = ''): Issue[] {
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
    if (isObject(next)) pending.push(resolveReference(next, root));
    const members: unknown[] = Object.values(next);
    for (const member of members) pending.push(member);
  }
  return found;
}

function explainOne(error: ErrorObject, context: ExplainContext, path: string): Issue[] {
  const { keyword } = error;
  const schema = schemaObject(error.parentSchema);
  const params: Readonly<Record<string, unknown>> = isObject(error.params) ? error.params : {};
  const issue = (message: string): Issue[] => [{ path, message, part: 'value', keyword }];
  if (keyword === 'required' || keyword === 'dependentRequired')
    return missing(params, { schema, path, context });
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties') {
    const key = String(params.additionalProperty ?? params.unevaluatedProperty);
    const present = new Set(isObject(error.data) ? Object.keys(error.data) : []);
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
  const present = keys.filter((key) => isObject(error.data) && key in error.data);
  if (present.length > 1) {
    const names = listWords(present.map(quoted), 'and');
    return [{ ...issue, message: `only one of the keys ${names} may be given; remove the others` }];
  }
  const message = `one of the keys ${listWords(keys.map(quoted), 'or')} is missing`;
  return [{ ...issue, message, missing: keys.map((key) => childPointer(path, key)) }];
}
