import { isJsonObject } from '../../core/base/json.ts';
import type { Clock } from '../../core/ports/clock.ts';
import {
  defineCheck,
  definePlugin,
  failed,
  GatewayError,
  type JsonObject,
  type JsonValue,
  judged,
  type NamedModels,
  passed,
  type RequestContext,
  skipped,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';

const strict = { additionalProperties: false };

const Blocked = (what: string) =>
  Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 10000,
      description: `${what} Takes precedence over the allowed list.`,
    }),
  );

// An empty allow list could mean "nothing" or "not set", so it is refused.
const Allowed = (what: string) =>
  Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 10000, description: what }));

const Primitive = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]);

/** Options of `request-parameters`, spelled as in the specification. */
const RequestParametersSchema = Type.Object(
  {
    tools: Type.Optional(
      Type.Object(
        {
          blockedTypes: Blocked('Tool types that are refused (`web_search`).'),
          allowedTypes: Allowed(
            'The only tool types that may be used. `functions` count as `function`; a tool without a type counts as `function` when it describes one, else as `custom`.',
          ),
          blockedFunctionNames: Blocked('Function names that are refused, offered or chosen.'),
          allowedFunctionNames: Allowed('The only function names that may be offered or chosen.'),
        },
        { ...strict, description: 'Rules for tools, functions and tool choice.' },
      ),
    ),
    params: Type.Optional(
      Type.Object(
        {
          blockedKeys: Blocked('Top-level keys of the body that are refused with any value.'),
          allowedKeys: Allowed(
            'The only top-level keys that may be sent; `model` and `messages` must be listed too.',
          ),
          values: Type.Optional(
            Type.Record(
              Type.String(),
              Type.Object(
                {
                  blockedValues: Type.Optional(
                    Type.Array(Primitive, {
                      maxItems: 10000,
                      description: 'Refused values. Takes precedence over the allowed list.',
                    }),
                  ),
                  allowedValues: Type.Optional(
                    Type.Array(Primitive, {
                      minItems: 1,
                      maxItems: 10000,
                      description:
                        'Allowed values; all others are refused. A list or an object never matches.',
                    }),
                  ),
                },
                strict,
              ),
              {
                description: 'Rules for the value of a top-level key. The key itself stays optional.',
              },
            ),
          ),
        },
        { ...strict, description: 'Rules for the top-level keys of the body.' },
      ),
    ),
  },
  strict,
);

/** The options as written. */
export type RequestParametersOptions = Static<typeof RequestParametersSchema>;

/** The same rules for guardrails of configs: they judge the request of each attempt as it goes out. */
const requestParametersCheck = defineCheck({
  id: 'default.requestParametersCheck',
  aliases: ['request-parameters'],
  description:
    'Passes when the request uses only allowed, and no blocked, tools, functions, parameters and parameter values. For bodies that are not JSON objects, only rules for `model` apply.',
  phases: ['input'],
  schema: RequestParametersSchema,
  create(options) {
    const rules = compileRules(options);
    const rulesModels = rules.models !== undefined || rules.blocksModels;
    return ({ endpoint, json, model }) => {
      if (endpoint === 'mcp') return skipped('A call of a tool has no parameters of a model.');
      const isNamed = rulesModels && model !== '';
      if (!isJsonObject(json) && !isNamed) return skipped('The body is no JSON object.');
      const models = { names: [model], untold: undefined, isUnnamed: false };
      const violation =
        (isJsonObject(json) ? findViolation(json, rules) : undefined) ??
        (isNamed
          ? findModelViolation({ models, deployment: '', isAddressed: true, isModelled: true }, rules)
          : undefined);
      return violation === undefined ? passed() : failed(dataOf(violation));
    };
  },
});

/**
 * Refuses requests by their tools, parameters and values: 446 `hooks_failed`. It judges them as received and as sent to
 * each target. Rules over `model` apply wherever a request names a model; all other rules apply to JSON objects only.
 */
export default definePlugin({
  name: 'request-parameters',
  description:
    'Refuses requests that use blocked, or not allowed, tools, functions, parameters or parameter values: as received, and as a config changes them for each target. Rules for `model` apply wherever a request names a model: body, form, `@slug/`, path, query, `override_params`, `default_params`; a blocked name also applies to the deployment. With such rules, a request whose model cannot be read (a batch, a list) is refused; a request that names none passes. Other rules apply to JSON objects; uploads are read only for rules for `model`.',
  schema: RequestParametersSchema,
  offers: [requestParametersCheck],
  capabilities: { guardrail: true, reads: ['request.json'] },
  create(options, { clock }) {
    const rules = compileRules(options);
    const rulesModels = rules.models !== undefined || rules.blocksModels;
    const judge = (context: RequestContext, json: JsonValue | undefined): void => {
      const startedAt = clock.monotonic();
      const isRead = isJsonObject(json);
      let violation = isRead ? findViolation(json, rules) : undefined;
      let named = false;
      if (violation === undefined && rulesModels) {
        const { models, endpoint } = context;
        named = models.names.length > 0;
        const asked = { models, deployment: '', isAddressed: true, isModelled: endpoint.modelled };
        violation = findModelViolation(asked, rules);
      }
      if (violation) throw refusal(violation, startedAt, clock);
      context.set(judged, isRead || named ? 'passed' : 'skipped');
    };
    return {
      request(context) {
        const { body } = context;
        // Messages of MCP are no requests to a model.
        if (context.endpoint.id === 'mcp') return void context.set(judged, 'skipped');
        // A form names its model, too. For operations without a model `untold` is undefined: their uploads stay unread.
        if (rulesModels && body.present && !body.loaded && context.models.untold !== undefined)
          return body.load().then(() => judge(context, context.json));
        return judge(context, context.json);
      },
      // Judges the request after the changes of config, routing and later hooks.
      attempt(context) {
        const { attempt, endpoint } = context;
        const { body } = attempt;
        const startedAt = clock.monotonic();
        const json = body.loaded ? body.json : undefined;
        let violation = isJsonObject(json) ? findViolation(json, rules) : undefined;
        if (violation === undefined && rulesModels) {
          const asked = { models: context.models, deployment: attempt.deployment, isAddressed: false };
          violation = findModelViolation({ ...asked, isModelled: endpoint.modelled }, rules);
        }
        if (violation) throw refusal(violation, startedAt, clock);
      },
    };
  },
});

/** Reported data of a violation: the rule, the place, and the value there, shortened. */
function dataOf(violation: Violation) {
  const { param, rule } = violation;
  const found = violation.untold === undefined ? describe(violation.found) : violation.untold;
  const verdict = violation.blocked ? 'is blocked' : 'is not allowed';
  // For a parameter that is refused as such, `param` and `found` are the same word.
  const explanation =
    violation.untold === undefined
      ? `"${param}"${found === JSON.stringify(param) ? '' : ` with ${found}`} ${verdict} by the rule ${rule}.`
      : `the rule ${rule} cannot be kept, as the model of this request cannot be told: ${found}.`;
  return { explanation, rule, param, value: found };
}

function refusal(violation: Violation, startedAt: number, clock: Clock): GatewayError {
  const data = dataOf(violation);
  const timing = {
    execution_time: Math.round(clock.monotonic() - startedAt),
    created_at: new Date(clock.now()).toISOString(),
  };
  const check = {
    id: requestParametersCheck.id,
    verdict: false,
    data,
    error: null,
    ...timing,
    transformed: false,
    log: null,
    fail_on_error: false,
  };
  const hook = {
    verdict: false,
    id: 'request-parameters',
    type: 'guardrail',
    transformed: false,
    checks: [check],
    feedback: null,
    ...timing,
    async: false,
    deny: true,
    skipped: false,
  };
  return new GatewayError('hooks_failed', `The request was refused: ${data.explanation}`, {
    param: data.param,
    extra: { hook_results: { before_request_hooks: [hook], after_request_hooks: [] } },
  });
}

/** A value of the body for a message, at most 120 characters. */
function describe(value: Violation['found']): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  const text = typeof value === 'bigint' ? value.toString() : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}

type ParameterValue = string | number | boolean | null;

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
interface Violation {
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
function compileRules({ tools = {}, params = {} }: RequestParametersOptions): Rules {
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
  blocked: readonly ParameterValue[] | undefined,
  allowedOption: string,
  allowed: readonly ParameterValue[] | undefined,
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
function findViolation(body: JsonObject, rules: Rules): Violation | undefined {
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
function findModelViolation(asked: ModelsAsked, rules: Rules): Violation | undefined {
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
