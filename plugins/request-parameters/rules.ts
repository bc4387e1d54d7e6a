import { isJsonObject } from '../../core/base/json.ts';
import type { JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import type { NamedModels } from '../../core/pipeline/plugin.ts';
import type { RequestParametersOptions } from './index.ts';

type Primitive = string | number | boolean | null;

/** A block list and an allow list over the same thing, ready for look-ups. */
interface ListRule {
  readonly blocked: ReadonlySet<JsonValue> | undefined;
  readonly allowed: ReadonlySet<JsonValue> | undefined;
  /** Names of the two options, for messages. */
  readonly blockedOption: string;
  readonly allowedOption: string;
}

/** The options, compiled once. */
interface Rules {
  readonly types: ListRule | undefined;
  readonly names: ListRule | undefined;
  readonly keys: ListRule | undefined;
  readonly values: readonly { readonly key: string; readonly rule: ListRule }[];
  /** Rule over models, wherever a request names them; undefined without such a rule. */
  readonly models: ListRule | undefined;
  /** Callers may not send the parameter `model` at all. */
  readonly blocksModels: boolean;
}

/** Rule that a request breaks, with the place. */
export interface Violation {
  /** The option that refused it: `params.blockedKeys`. */
  readonly rule: string;
  /** The place in the body: `logit_bias`, `tools[2].type`. */
  readonly param: string;
  /** The offending key, name or value. */
  readonly found: JsonValue;
  readonly blocked: boolean;
  /** Reason why the model cannot be determined, as the end of a sentence. */
  readonly untold?: string;
}

/** Compiles the options into sets. Called once per generation. */
export function compileRules({ tools = {}, params = {} }: RequestParametersOptions): Rules {
  const values = valueRules(params.values);
  return {
    types: listRule('tools.blockedTypes', tools.blockedTypes, 'tools.allowedTypes', tools.allowedTypes),
    names: listRule(
      'tools.blockedFunctionNames',
      tools.blockedFunctionNames,
      'tools.allowedFunctionNames',
      tools.allowedFunctionNames,
    ),
    keys: listRule('params.blockedKeys', params.blockedKeys, 'params.allowedKeys', params.allowedKeys),
    values: values.filter(({ key }) => key !== 'model'),
    models: values.find(({ key }) => key === 'model')?.rule,
    blocksModels: params.blockedKeys?.includes('model') === true,
  };
}

function valueRules(values: NonNullable<RequestParametersOptions['params']>['values'] = {}): Rules['values'] {
  return Object.entries(values).flatMap(([key, { blockedValues, allowedValues }]) => {
    const place = `params.values.${key}`;
    const rule = listRule(`${place}.blockedValues`, blockedValues, `${place}.allowedValues`, allowedValues);
    return rule === undefined ? [] : [{ key, rule }];
  });
}

function listRule(
  blockedOption: string,
  blocked: readonly Primitive[] | undefined,
  allowedOption: string,
  allowed: readonly Primitive[] | undefined,
): ListRule | undefined {
  if (!blocked?.length && allowed === undefined) return undefined;
  return {
    blockedOption,
    blocked: blocked?.length ? new Set(blocked) : undefined,
    allowedOption,
    allowed: allowed && new Set(allowed),
  };
}

/** The first rule that the body breaks, or undefined. Allocates nothing for a body that breaks none. */
export function findViolation(body: JsonObject, rules: Rules): Violation | undefined {
  return checkKeys(body, rules.keys) ?? checkValues(body, rules) ?? checkTools(body, rules);
}

/** The models that a request names, and how far their names are resolved. */
interface ModelsAsked {
  readonly models: NamedModels;
  /** The deployment chosen by settings; else empty. */
  readonly deployment: string;
  /** Names that address a provider still have the prefix `@slug/`. */
  readonly isAddressed: boolean;
  /** The endpoint runs a model. Its unreadable bodies are refused elsewhere, with the reason. */
  readonly isModelled: boolean;
}

/**
 * The first model that breaks a rule, wherever the request names it. A deployment is judged by the blocked names alone:
 * the operator chose it for the requested model. A model that cannot be determined breaks every rule over models.
 */
export function findModelViolation(asked: ModelsAsked, rules: Rules): Violation | undefined {
  const { models: rule, keys, blocksModels } = rules;
  const { names, untold, isUnnamed } = asked.models;
  const [first] = names;
  if (blocksModels && keys !== undefined && first !== undefined)
    return { rule: keys.blockedOption, param: 'model', found: 'model', blocked: true };
  if (rule === undefined) return undefined;
  for (const name of names) {
    // A provider that is itself a gateway may read `@slug/…` as that model, too.
    const blocked = spellings(name, true).find((one) => rule.blocked?.has(one));
    if (blocked !== undefined)
      return { rule: rule.blockedOption, param: 'model', found: name, blocked: true };
    if (
      rule.allowed !== undefined &&
      !spellings(name, asked.isAddressed).some((one) => rule.allowed?.has(one))
    )
      return { rule: rule.allowedOption, param: 'model', found: name, blocked: false };
  }
  const { deployment } = asked;
  if (deployment !== '' && rule.blocked?.has(deployment))
    return { rule: rule.blockedOption, param: 'model', found: deployment, blocked: true };
  if (untold === undefined || isUnnamed || asked.isModelled) return undefined;
  const broken = rule.allowed === undefined ? rule.blockedOption : rule.allowedOption;
  return { rule: broken, param: 'model', found: null, blocked: false, untold };
}

/** The name as written, without the provider that it addresses, and without its collection `models/`. */
function spellings(name: string, isAddressed: boolean): string[] {
  const found = [name];
  const slash = name.indexOf('/');
  const bare = isAddressed && name.startsWith('@') && slash > 0 ? name.slice(slash + 1) : name;
  if (bare !== name) found.push(bare);
  const collection = bare.lastIndexOf('models/');
  if (collection === 0 || bare[collection - 1] === '/') found.push(bare.slice(collection + 'models/'.length));
  return found;
}

function checkKeys(body: JsonObject, rule: ListRule | undefined): Violation | undefined {
  if (rule === undefined) return undefined;
  for (const key in body) {
    if (!permits(rule, key)) return violation(rule, key, key);
  }
  return undefined;
}

function checkValues(body: JsonObject, { values }: Rules): Violation | undefined {
  for (const { key, rule } of values) {
    if (!Object.hasOwn(body, key)) continue;
    const value = body[key] as JsonValue;
    if (!permits(rule, value)) return violation(rule, key, value);
  }
  return undefined;
}

function checkTools(body: JsonObject, rules: Rules): Violation | undefined {
  if (rules.types === undefined && rules.names === undefined) return undefined;
  return (
    checkToolList(body['tools'], rules) ??
    checkFunctions(body['functions'], rules) ??
    checkChoice(body['tool_choice'], 'tool_choice', rules.names) ??
    checkChoice(body['function_call'], 'function_call', rules.names)
  );
}

function checkToolList(tools: JsonValue | undefined, { types, names }: Rules): Violation | undefined {
  if (!Array.isArray(tools)) return undefined;
  for (let index = 0; index < tools.length; index++) {
    const tool = tools[index];
    if (!isJsonObject(tool)) continue;
    const type = tool['type'] ?? (isJsonObject(tool['function']) ? 'function' : 'custom');
    if (types && !permits(types, type)) return violation(types, `tools[${index}].type`, type);
    const refused = names && refusedName(tool, names);
    if (refused) return violation(names, `tools[${index}].${refused.place}`, refused.name);
  }
  return undefined;
}

function checkFunctions(functions: JsonValue | undefined, { types, names }: Rules): Violation | undefined {
  if (!Array.isArray(functions) || functions.length === 0) return undefined;
  if (types && !permits(types, 'function')) return violation(types, 'functions', 'function');
  for (let index = 0; names && index < functions.length; index++) {
    const refused = refusedName(functions[index], names);
    if (refused) return violation(names, `functions[${index}].${refused.place}`, refused.name);
  }
  return undefined;
}

function checkChoice(
  choice: JsonValue | undefined,
  param: string,
  names: ListRule | undefined,
): Violation | undefined {
  const refused = names && refusedName(choice, names);
  return names && refused && violation(names, `${param}.${refused.place}`, refused.name);
}

/**
 * The first refused name of a tool, function or choice. Wires write it as `function.name`, as `custom.name` or as
 * `name`; a hosted tool has none and passes.
 */
function refusedName(
  named: JsonValue | undefined,
  rule: ListRule,
): { place: string; name: JsonValue } | undefined {
  if (!isJsonObject(named)) return undefined;
  const { function: declared, custom, name } = named;
  if (isJsonObject(declared) && declared['name'] !== undefined && !permits(rule, declared['name'])) {
    return { place: 'function.name', name: declared['name'] };
  }
  if (isJsonObject(custom) && custom['name'] !== undefined && !permits(rule, custom['name'])) {
    return { place: 'custom.name', name: custom['name'] };
  }
  return name === undefined || permits(rule, name) ? undefined : { place: 'name', name };
}

function permits({ blocked, allowed }: ListRule, value: JsonValue): boolean {
  if (blocked?.has(comparable(value))) return false;
  return allowed === undefined || allowed.has(comparable(value));
}

/** YAML numbers are doubles, so a long integer of the body is compared as one. */
function comparable(value: JsonValue): JsonValue {
  return typeof value === 'bigint' ? Number(value) : value;
}

function violation(rule: ListRule, param: string, found: JsonValue): Violation {
  const blocked = rule.blocked?.has(comparable(found)) === true;
  return {
    rule: blocked ? rule.blockedOption : rule.allowedOption,
    param: param.slice(0, 120),
    found,
    blocked,
  };
}
