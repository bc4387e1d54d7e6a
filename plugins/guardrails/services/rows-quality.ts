/** Services that judge content and style, and those that search. */
import { isJsonObject, parseJson } from '../../../core/base/json.ts';
import { type JsonObject, type JsonValue, Type } from '../../../core/pipeline/plugin.ts';
import { Redact, serviceFields, type ServiceRow } from './service.ts';
import { type Values, valueAt } from './template.ts';

const patronus = {
  credentials: { apiKey: serviceFields.secret('Key of Patronus.') },
  base: ['https://api.patronus.ai'],
  path: '/v1/evaluate',
  headers: { 'x-api-key': '{credentials.apiKey}' },
  needs: [{ at: 'results.0.evaluation_result.pass', is: 'boolean' }],
} satisfies Partial<ServiceRow>;

/** Body of a request to Patronus with one of its evaluators. */
function evaluation(evaluator: string, criteria?: string) {
  return {
    evaluators: [{ evaluator, explain_strategy: 'always', ...(criteria !== undefined && { criteria }) }],
    evaluated_model_input: '{request.text}',
    evaluated_model_output: '{answer}',
  };
}

const patronusJudges = [
  ['isConcise', 'judge', 'patronus:is-concise', 'concise'],
  ['isHelpful', 'judge', 'patronus:is-helpful', 'helpful'],
  ['isPolite', 'judge', 'patronus:is-polite', 'polite'],
  ['noApologies', 'judge', 'patronus:no-apologies', 'free of apologies'],
  ['noGenderBias', 'judge', 'patronus:no-gender-bias', 'free of bias by gender'],
  ['noRacialBias', 'judge', 'patronus:no-racial-bias', 'free of bias by race'],
  ['retrievalAnswerRelevance', 'answer-relevance', undefined, 'about what was asked'],
  ['retrievalHallucination', 'hallucination', undefined, 'free of hallucinations'],
  ['toxicity', 'toxicity', undefined, 'free of toxicity'],
] as const;

/** `judge:my-criteria`; without an evaluator it is the judge's. */
function profileOf({ parameters }: Values): Values {
  const said = valueAt(parameters, 'profile') ?? valueAt(parameters, 'criteria');
  const profile = typeof said === 'string' ? said : '';
  const at = profile.indexOf(':');
  if (at < 0) return { evaluator: 'judge', criteria: profile };
  return { evaluator: profile.slice(0, at), criteria: profile.slice(at + 1) };
}

const Mode = Type.Optional(
  Type.Union([Type.Literal('speed'), Type.Literal('balanced'), Type.Literal('quality')], {
    default: 'balanced',
    description: 'Preferred property of the search.',
  }),
);

const qualifire = {
  credentials: { apiKey: serviceFields.secret('Key of Qualifire.') },
  timeoutMs: 60_000,
  base: ['https://proxy.qualifire.ai'],
  path: '/api/evaluation/evaluate',
  headers: { 'x-qualifire-api-key': '{credentials.apiKey}' },
  needs: [
    { at: 'status', is: 'string' },
    { at: 'evaluationResults', is: 'list' },
  ],
  fails: [{ at: 'status', equals: 'failed', called: 'evaluation' }],
  tells: [{ at: 'evaluationResults.*.results.*.flagged', equals: true, named: 'name' }],
} satisfies Partial<ServiceRow>;

const said = { input: '{request.text}', output: '{answer}' };

/** Messages with tool calls, and the available tools, as Qualifire takes them. */
function toolUse({ request, messages, json }: Values): Values {
  const asked = valueAt(request, 'json');
  const tools = valueAt(asked, 'tools');
  const calls = valueAt(json, 'choices.0.message.tool_calls');
  const message: JsonObject = {
    role: 'assistant',
    content: (valueAt(json, 'choices.0.message.content') ?? '') as JsonValue,
    tool_calls: functionsIn(calls).map(({ id, function: called }) => ({
      id: id ?? null,
      name: called['name'] ?? null,
      arguments: argumentsOf(called) ?? null,
    })),
  };
  const listed: readonly unknown[] = Array.isArray(messages) ? messages : [];
  return {
    messages: [...listed.slice(-1), message],
    tools: functionsIn(tools).map(({ function: { name, description, parameters } }) => ({
      name: name ?? null,
      ...(description !== undefined && { description }),
      ...(parameters !== undefined && { parameters }),
    })),
  };
}

/** As JSON, where they are some. */
function argumentsOf({ arguments: said }: JsonObject): JsonValue | undefined {
  return typeof said === 'string' ? (parseJson(said) ?? said) : said;
}

function functionsIn(list: unknown): readonly { id?: JsonValue; function: JsonObject }[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((one: unknown) =>
    isJsonObject(one) && isJsonObject(one['function'])
      ? [{ ...(one['id'] !== undefined && { id: one['id'] }), function: one['function'] }]
      : [],
  );
}

/** Texts that a policy of Qualifire judges. */
function policyTarget({ parameters, request, answer }: Values): Values {
  const target = valueAt(parameters, 'policy_target') ?? 'both';
  return {
    input: target === 'output' ? undefined : valueAt(request, 'text'),
    output: target === 'input' ? undefined : answer,
  };
}

const promptfoo = {
  credentials: {},
  base: ['https://api.promptfoo.dev/v1'],
  headers: {},
  body: { input: '{text}' },
  needs: [{ at: 'results.0.flagged', is: 'boolean' }],
} satisfies Partial<ServiceRow>;

const walledGreetings = ['Casual & Friendly', 'Professional & Polite'] as const;
const walledData = [
  ...(["Person's Name", 'Address', 'Email Id', 'Contact No', 'Date Of Birth', 'Unique Id'] as const),
  'Financial Data',
] as const;
const listOf = (allowed: readonly string[], usual: readonly string[], description: string) =>
  Type.Optional(
    Type.Array(Type.Union(allowed.map((name) => Type.Literal(name))), {
      uniqueItems: true,
      default: [...usual],
      description,
    }),
  );

const search = (service: string) => ({
  credentials: { apiKey: serviceFields.secret(`Key of ${service}.`) },
  timeoutMs: 10_000,
  needs: [{ at: 'results', is: 'list' as const }],
  fails: [],
});
const Domains = (which: string) =>
  Type.Optional(
    Type.Array(Type.String({ maxLength: 255 }), { maxItems: 300, description: `Domains that are ${which}.` }),
  );
const searchParameters = {
  prefix: serviceFields.text('Text before the results.', { default: '\n<web_search_context>' }),
  suffix: serviceFields.text('Text after the results.', { default: '\n</web_search_context>' }),
  numResults: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 20, default: 5, description: 'Most results.' }),
  ),
  includeDomains: Domains('searched'),
  excludeDomains: Domains('left out'),
};

export const qualityServices: readonly ServiceRow[] = [
  {
    id: 'aporia.validateProject',
    description: 'Asks the policies of a project of Aporia.',
    phases: ['input', 'output'],
    parameters: {
      projectID: Type.String({ minLength: 1, maxLength: 255, description: 'The project.' }),
    },
    credentials: {
      apiKey: serviceFields.secret('Key of Aporia.'),
      apiEndpoint: Type.Optional(
        serviceFields.address('URL of the service.', { default: 'https://gr-prd.aporia.com' }),
      ),
    },
    base: ['{credentials.apiEndpoint}'],
    path: '/{parameters.projectID}/validate',
    headers: { 'x-aporia-api-key': '{credentials.apiKey}' },
    body: {
      messages: '{messages}',
      response: '{answer}',
      validation_target: { byPhase: { input: 'prompt', output: 'response' } },
      explain: true,
    },
    needs: [
      { at: 'action', is: 'string', oneOf: ['passthrough', 'modify', 'rephrase', 'override', 'block'] },
    ],
    fails: [{ at: 'action', differs: 'passthrough', named: '.' }],
    tells: [{ at: 'policy_execution_result.policy_log.*.policy_type', isSet: true, named: 'policy_type' }],
  },
  {
    ...search('Exa'),
    id: 'exa.online',
    description:
      'Searches the web with Exa for the last message, and adds the results after the system message. Always passes.',
    phases: ['input'],
    parameters: searchParameters,
    base: ['https://api.exa.ai'],
    path: '/search',
    headers: { 'x-api-key': '{credentials.apiKey}' },
    body: {
      query: '{request.text}',
      numResults: '{parameters.numResults}',
      includeDomains: '{parameters.includeDomains}',
      excludeDomains: '{parameters.excludeDomains}',
      contents: { text: true },
    },
    replaces: { kind: 'context', at: ['results.*'], text: 'text', when: [] },
  },
  {
    ...search('Tavily'),
    id: 'tavily.online',
    description:
      'Searches the web with Tavily for the last message, and adds the results after the system message. Always passes.',
    phases: ['input'],
    parameters: searchParameters,
    base: ['https://api.tavily.com'],
    path: '/search',
    headers: { authorization: 'Bearer {credentials.apiKey}' },
    body: {
      query: '{request.text}',
      max_results: '{parameters.numResults}',
      include_domains: '{parameters.includeDomains}',
      exclude_domains: '{parameters.excludeDomains}',
    },
    replaces: { kind: 'context', at: ['results.*'], text: 'content', when: [] },
  },
  ...patronusJudges.map(([name, evaluator, criteria, meaning]): ServiceRow => ({
    ...patronus,
    id: `patronus.${name}`,
    description: `Asks Patronus whether an answer is ${meaning}.`,
    phases: ['output'],
    parameters: {},
    timeoutMs: 15_000,
    body: evaluation(evaluator, criteria),
    fails: [{ at: 'results.0.evaluation_result.pass', equals: false, called: name }],
    explains: 'results.0.evaluation_result.explanation',
  })),
  {
    ...patronus,
    id: 'patronus.custom',
    description: 'Asks an evaluator of Patronus with criteria of your own.',
    phases: ['output'],
    parameters: {
      profile: serviceFields.text('`evaluator:criteria`, or the criteria of the judge alone.'),
      criteria: serviceFields.text('Same value, under the name in older guardrails.'),
    },
    timeoutMs: 15_000,
    derives: profileOf,
    body: evaluation('{derived.evaluator}', '{derived.criteria}'),
    fails: [{ at: 'results.0.evaluation_result.pass', equals: false, called: 'criteria' }],
    explains: 'results.0.evaluation_result.explanation',
  },
  ...(['pii', 'phi'] as const).map((name): ServiceRow => ({
    ...patronus,
    id: `patronus.${name}`,
    description: `Asks Patronus for ${name === 'pii' ? 'personal data' : 'health information'} in an answer.`,
    phases: ['output'],
    parameters: { redact: Redact },
    timeoutMs: 15_000,
    body: {
      evaluators: [{ evaluator: name, explain_strategy: 'always' }],
      evaluated_model_output: '{text}',
    },
    asks: 'each',
    fails: [{ at: 'results.0.evaluation_result.pass', equals: false, called: name, mended: true }],
    replaces: { kind: 'spans', at: ['results.0.evaluation_result.additional_info.positions.*'] },
  })),
  {
    ...promptfoo,
    id: 'promptfoo.guard',
    description: 'Asks promptfoo for jailbreaks and injected instructions.',
    phases: ['input'],
    parameters: {},
    path: '/guard',
    needs: [...promptfoo.needs, { at: 'results.0.categories', is: 'object' }],
    fails: [{ at: 'results.0.categories.*', equals: true }],
  },
  {
    ...promptfoo,
    id: 'promptfoo.pii',
    description: 'Asks promptfoo for personal data.',
    phases: ['input', 'output'],
    parameters: { redact: Redact },
    path: '/pii',
    asks: 'each',
    fails: [{ at: 'results.0.flagged', equals: true, called: 'pii', mended: true }],
    tells: [{ at: 'results.0.payload.pii.*.entity_type', isSet: true, named: 'entity_type' }],
    replaces: { kind: 'matches', at: ['results.0.payload.pii.*'], text: 'pii', label: 'entity_type' },
  },
  {
    ...promptfoo,
    id: 'promptfoo.harm',
    description: 'Asks promptfoo for harmful content.',
    phases: ['input', 'output'],
    parameters: {},
    path: '/harm',
    fails: [{ at: 'results.0.flagged', equals: true, called: 'harm' }],
    tells: [{ at: 'results.0.categories.*', equals: true }],
  },
  {
    ...qualifire,
    id: 'qualifire.contentModeration',
    description: 'Asks Qualifire to moderate requests and answers.',
    phases: ['input', 'output'],
    parameters: {},
    body: { ...said, content_moderation_check: true },
  },
  {
    ...qualifire,
    id: 'qualifire.grounding',
    description: 'Asks Qualifire whether an answer is grounded in the request.',
    phases: ['output'],
    parameters: { mode: Mode },
    body: { ...said, grounding_check: true, grounding_mode: '{parameters.mode}' },
  },
  {
    ...qualifire,
    id: 'qualifire.hallucinations',
    description: 'Asks Qualifire for hallucinations in an answer.',
    phases: ['output'],
    parameters: { mode: Mode },
    body: { ...said, hallucinations_check: true, hallucinations_mode: '{parameters.mode}' },
  },
  {
    ...qualifire,
    id: 'qualifire.pii',
    description: 'Asks Qualifire for personal data in requests and answers.',
    phases: ['input', 'output'],
    parameters: {},
    body: { ...said, pii_check: true },
  },
  {
    ...qualifire,
    id: 'qualifire.policy',
    description: 'Asks Qualifire whether policies of your own hold.',
    phases: ['input', 'output'],
    parameters: {
      policies: Type.Array(Type.String({ minLength: 1, maxLength: 4096 }), {
        minItems: 1,
        maxItems: 50,
        description: 'Sentences that must hold.',
      }),
      mode: Mode,
      policy_target: Type.Optional(
        Type.Union([Type.Literal('input'), Type.Literal('output'), Type.Literal('both')], {
          default: 'both',
          description: 'Part to check.',
        }),
      ),
    },
    derives: policyTarget,
    body: {
      input: '{derived.input}',
      output: '{derived.output}',
      assertions: '{parameters.policies}',
      assertions_mode: '{parameters.mode}',
    },
  },
  {
    ...qualifire,
    id: 'qualifire.promptInjections',
    description: 'Asks Qualifire for injected instructions.',
    phases: ['input'],
    parameters: {},
    body: { input: '{text}', prompt_injections: true },
  },
  {
    ...qualifire,
    id: 'qualifire.toolUseQuality',
    description: 'Asks Qualifire whether an answer calls the right tools. For chat completions.',
    phases: ['output'],
    parameters: { mode: Mode },
    derives: toolUse,
    body: {
      messages: '{derived.messages}',
      available_tools: '{derived.tools}',
      tool_selection_quality_check: true,
      tsq_mode: '{parameters.mode}',
    },
  },
  {
    id: 'walledai.walledprotect',
    description: 'Asks Walled Protect whether texts are safe.',
    phases: ['input', 'output'],
    parameters: {
      generic_safety_check: Type.Optional(
        Type.Boolean({ default: true, description: 'Judge the safety; without it there is no verdict.' }),
      ),
      greetings_list: listOf(walledGreetings, ['Casual & Friendly'], 'Greetings that are looked for.'),
      pii_list: listOf(walledData, walledData, 'Personal data that is looked for.'),
      compliance_list: Type.Optional(
        Type.Array(Type.String({ maxLength: 4096 }), {
          maxItems: 100,
          default: [],
          description: 'Topics to look for.',
        }),
      ),
    },
    credentials: { apiKey: serviceFields.secret('Key of Walled AI.') },
    base: ['https://services.walled.ai'],
    path: '/v1/walled-protect',
    headers: { 'x-api-key': '{credentials.apiKey}' },
    body: {
      text: '{text}',
      generic_safety_check: '{parameters.generic_safety_check}',
      greetings_list: '{parameters.greetings_list}',
      pii_list: '{parameters.pii_list}',
      compliance_list: '{parameters.compliance_list}',
    },
    needs: [{ at: 'data.safety.*.isSafe', is: 'boolean' }],
    fails: [{ at: 'data.safety.*.isSafe', equals: false, named: 'safety' }],
  },
];
