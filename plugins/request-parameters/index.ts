import { isJsonObject } from '../../core/base/json.ts';
import type { Clock } from '../../core/ports/clock.ts';
import {
  defineCheck,
  definePlugin,
  failed,
  GatewayError,
  type JsonValue,
  judged,
  passed,
  type RequestContext,
  skipped,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import { compileRules, findModelViolation, findViolation, type Violation } from './rules.ts';

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
