/** Services that look for attacks, secrets and personal data. */
import { Type } from '../../../core/pipeline/plugin.ts';
import { Threshold } from '../checks/shared.ts';
import { Redact, serviceFields, type ServiceRow } from './service.ts';
import { type Values, valueAt } from './template.ts';

/** A host name, with a port at most. */
const host = (description: string, more: { readonly default?: string } = {}) =>
  Type.String({ maxLength: 255, pattern: '^[A-Za-z0-9.-]+(:[0-9]{1,5})?$', description, ...more });

const bearer = { authorization: 'Bearer {credentials.apiKey}' };
/** Detectors of Pangea that make a text fail, as existing guardrails expect. */
const pangeaDetectors = [
  ...['prompt_injection', 'pii_entity', 'malicious_entity', 'custom_entity'],
  ...['secrets_detection', 'profanity_and_toxicity'],
];

const pangea = {
  credentials: {
    apiKey: serviceFields.secret('Token of Pangea.'),
    domain: host('Domain of the region: `aws.us.pangea.cloud`.'),
  },
  headers: bearer,
} satisfies Partial<ServiceRow>;

const pillarScanners = ['prompt_injection', 'pii', 'secrets', 'toxic_language', 'invisible_characters'];

const pillar = (side: 'prompt' | 'response', scanners: readonly string[]) =>
  ({
    parameters: {
      scanners: Type.Array(Type.Union(scanners.map((name) => Type.Literal(name))), {
        minItems: 1,
        uniqueItems: true,
        description: 'Categories to look for.',
      }),
    },
    credentials: { apiKey: serviceFields.secret('Key of Pillar Security.') },
    base: ['https://api.pillarseclabs.com/api/v1'],
    path: `/scan/${side}`,
    headers: bearer,
    derives: ({ parameters }) => {
      const asked = valueAt(parameters, 'scanners');
      const list: readonly unknown[] = Array.isArray(asked) ? asked : [];
      return { scanners: Object.fromEntries(list.map((name) => [String(name), true])) };
    },
    body: { message: '{text}', scanners: '{derived.scanners}' },
    needs: [{ at: '', is: 'object', with: '{parameters.scanners}' }],
    fails: [{ at: '*', isSet: true, among: pillarScanners }],
  }) satisfies Partial<ServiceRow>;

const promptSecurity = (side: 'prompt' | 'response') =>
  ({
    parameters: {},
    credentials: {
      apiKey: serviceFields.secret('App id of Prompt Security.'),
      apiDomain: host('Domain of your tenant.'),
    },
    base: ['https://{credentials.apiDomain}'],
    path: '/api/protect',
    headers: { 'app-id': '{credentials.apiKey}' },
    body: { [side]: '{text}' },
    needs: [{ at: `result.${side}.passed`, is: 'boolean' }],
    fails: [{ at: `result.${side}.passed`, equals: false, called: side }],
    tells: [{ at: `result.${side}.violations.*`, isSet: true, named: '.' }],
  }) satisfies Partial<ServiceRow>;

/** A call as Akto takes it: as texts. */
function aktoCall({ phase, texts, request, answer }: Values): Values {
  const body = (said: unknown): string => JSON.stringify({ body: said });
  const asked = phase === 'input' ? (texts as readonly string[]).join('\n') : valueAt(request, 'text');
  return { request: body(asked), response: phase === 'input' ? '{}' : body(answer) };
}

export const securityServices: readonly ServiceRow[] = [
  {
    id: 'akto.scan',
    description: 'Asks the guardrails of Akto.',
    phases: ['input', 'output'],
    parameters: {},
    credentials: {
      apiKey: serviceFields.secret('API token of Akto.'),
      apiDomain: host('Domain of your guardrails service: `ACCOUNT-guardrails.akto.io`.'),
    },
    base: ['https://{credentials.apiDomain}'],
    path: {
      byPhase: {
        input: '/api/http-proxy?guardrails=true&ingest_data=false',
        output: '/api/http-proxy?response_guardrails=true&ingest_data=false',
      },
    },
    headers: { authorization: '{credentials.apiKey}' },
    derives: aktoCall,
    body: {
      path: '/v1/chat/completions',
      method: 'POST',
      requestHeaders: '{}',
      responseHeaders: '{}',
      requestPayload: '{derived.request}',
      responsePayload: '{derived.response}',
      statusCode: '200',
      status: '200',
      source: 'MIRRORING',
      contextSource: 'AGENTIC',
    },
    needs: [{ at: 'data.guardrailsResult.Allowed', is: 'boolean' }],
    fails: [{ at: 'data.guardrailsResult.Allowed', equals: false, called: 'policy' }],
    explains: 'data.guardrailsResult.Reason',
  },
  {
    id: 'crowdstrike-aidr.guardChatCompletions',
    description: 'Asks CrowdStrike AIDR, and applies the changes of its policy.',
    phases: ['input', 'output'],
    parameters: {},
    credentials: {
      apiKey: serviceFields.secret('Token of CrowdStrike AIDR.'),
      baseUrl: serviceFields.address('URL of the service in your region.'),
    },
    base: ['{credentials.baseUrl}'],
    path: '/v1/guard_chat_completions',
    headers: bearer,
    body: {
      guard_input: '{json}',
      event_type: '{phase}',
      app_id: 'weir',
      llm_provider: '{provider}',
      model: '{model}',
      user_id: '{metadata._user}',
    },
    needs: [
      { at: 'status', is: 'string', oneOf: ['Success'] },
      { at: 'result.blocked', is: 'boolean' },
    ],
    fails: [{ at: 'result.blocked', equals: true, called: 'policy' }],
    replaces: { kind: 'json', at: ['result.guard_output'], when: [] },
  },
  {
    id: 'f5-guardrails.scan',
    description: 'Asks the scanners of a project of F5 AI Guardrails (CalypsoAI).',
    phases: ['input', 'output'],
    parameters: {
      projectId: Type.String({ minLength: 1, maxLength: 255, description: 'Project whose scanners run.' }),
      redact: Redact,
    },
    credentials: {
      apiKey: serviceFields.secret('Token of F5 AI Guardrails.'),
      calypsoUrl: Type.Optional(
        serviceFields.address('URL of your instance.', { default: 'https://us1.calypsoai.app' }),
      ),
    },
    base: ['{credentials.calypsoUrl}'],
    path: '/backend/v1/scans',
    headers: bearer,
    body: { input: '{text}', project: '{parameters.projectId}' },
    asks: 'each',
    needs: [{ at: 'result.outcome', is: 'string', oneOf: ['cleared', 'flagged', 'redacted', 'blocked'] }],
    fails: [
      { at: 'result.outcome', equals: 'blocked', named: '.' },
      { at: 'result.outcome', differs: 'cleared', named: '.', mended: true },
    ],
    replaces: { kind: 'text', at: ['redactedInput'] },
  },
  {
    id: 'javelin.guardrails',
    description: 'Asks the guardrails of an application of Javelin.',
    phases: ['input', 'output'],
    parameters: {},
    credentials: {
      apiKey: serviceFields.secret('Key of Javelin.'),
      application: serviceFields.setting('Name of the application whose policy holds.'),
      domain: Type.Optional(host('Domain of your instance.', { default: 'api-dev.javelin.live' })),
    },
    base: ['https://{credentials.domain}'],
    path: '/v1/guardrails/apply',
    headers: {
      'x-javelin-apikey': '{credentials.apiKey}',
      'x-javelin-application': '{credentials.application}',
    },
    body: { input: { text: '{text}' }, config: {}, metadata: {} },
    needs: [{ at: 'assessments.*.*.request_reject', is: 'boolean' }],
    fails: [{ at: 'assessments.*.*.request_reject', equals: true }],
    explains: 'assessments.*.*.results.reject_prompt',
  },
  {
    id: 'lakera.guard',
    description: 'Asks Lakera Guard, and replaces personal data if it found nothing else.',
    phases: ['input', 'output'],
    parameters: {
      projectID: serviceFields.text('Project whose policy holds. Default: the policy of the account.'),
      endInclusive: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            'Accepted in existing guardrails; findings are located by their text, so offsets do not matter.',
        }),
      ),
    },
    credentials: {
      apiKey: serviceFields.secret('Key of Lakera.'),
      apiBaseUrl: Type.Optional(
        serviceFields.address('URL of your instance.', { default: 'https://api.lakera.ai' }),
      ),
    },
    timeoutMs: 30_000,
    base: ['{credentials.apiBaseUrl}'],
    path: '/v2/guard',
    headers: bearer,
    body: {
      messages: [{ role: { byPhase: { input: 'user', output: 'assistant' } }, content: '{text}' }],
      project_id: '{parameters.projectID}',
      payload: true,
      breakdown: true,
    },
    asks: 'each',
    needs: [{ at: 'flagged', is: 'boolean' }],
    fails: [
      { at: 'flagged', equals: true, called: 'policy', mended: true },
      { at: 'breakdown.*.detected', equals: true, named: 'detector_type', notBeginning: 'pii/' },
    ],
    tells: [{ at: 'breakdown.*.detected', equals: true, named: 'detector_type' }],
    replaces: {
      kind: 'matches',
      at: ['payload.*'],
      text: 'text',
      label: 'detector_type',
      when: [],
    },
  },
  {
    id: 'lasso.classify',
    description: 'Asks the deputies of Lasso Security about the messages of a request.',
    phases: ['input'],
    parameters: {
      messages: Type.Optional(
        Type.Array(Type.Unknown(), {
          maxItems: 1000,
          description: 'Accepted in existing guardrails; the messages of the request are sent in any case.',
        }),
      ),
      conversationId: serviceFields.text('Conversation that the messages belong to.'),
      userId: serviceFields.text('User who sent them.'),
    },
    credentials: { apiKey: serviceFields.secret('Key of Lasso.') },
    base: ['https://server.lasso.security'],
    path: '/gateway/v2/classify',
    headers: {
      'lasso-api-key': '{credentials.apiKey}',
      'lasso-conversation-id': '{parameters.conversationId}',
      'lasso-user-id': '{parameters.userId}',
    },
    body: { messages: '{messages}' },
    needs: [{ at: 'violations_detected', is: 'boolean' }],
    fails: [{ at: 'violations_detected', equals: true, called: 'violation' }],
    tells: [{ at: 'deputies.*', equals: true }],
  },
  {
    ...pangea,
    id: 'pangea.textGuard',
    description: 'Asks the AI Guard of Pangea.',
    phases: ['input', 'output'],
    parameters: {
      recipe: serviceFields.text('Recipe that is applied.'),
      debug: Type.Optional(Type.Boolean({ description: 'Ask for details.' })),
      overrides: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          maxProperties: 100,
          description: 'Overrides of the recipe.',
        }),
      ),
    },
    base: ['https://ai-guard.{credentials.domain}'],
    path: '/v1/text/guard',
    body: {
      text: '{text}',
      recipe: '{parameters.recipe}',
      debug: '{parameters.debug}',
      overrides: '{parameters.overrides}',
    },
    needs: [
      { at: 'status', is: 'string', oneOf: ['Success'] },
      { at: 'result.detectors', is: 'object' },
    ],
    fails: [
      { at: 'result.detectors.*.detected', equals: true, among: pangeaDetectors },
      { at: 'result.blocked', equals: true, called: 'recipe' },
    ],
  },
  {
    ...pangea,
    id: 'pangea.pii',
    description: 'Asks Redact of Pangea for personal data.',
    phases: ['input', 'output'],
    parameters: { redact: Redact },
    base: ['https://redact.{credentials.domain}'],
    path: '/v1/redact_structured',
    body: { data: '{texts}' },
    needs: [
      { at: 'status', is: 'string', oneOf: ['Success'] },
      { at: 'result.count', is: 'number' },
    ],
    fails: [{ at: 'result.count', above: 0, called: 'personal data', mended: true }],
    replaces: { kind: 'texts', at: ['result.redacted_data.*'] },
  },
  {
    id: 'panw-prisma-airs.intercept',
    description: 'Asks Palo Alto Networks Prisma AIRS.',
    phases: ['input', 'output'],
    parameters: {
      profile_name: serviceFields.text('Name of the security profile.'),
      profile_id: serviceFields.text('Its id, in place of the name.'),
      ai_model: serviceFields.text('Model reported to the service. Default: that of the request.'),
      app_user: serviceFields.text('User reported to the service.', { default: 'weir' }),
      app_name: serviceFields.text('Application reported to the service.', { default: 'weir' }),
    },
    credentials: { AIRS_API_KEY: serviceFields.secret('Key of Prisma AIRS.') },
    base: ['https://service.api.aisecurity.paloaltonetworks.com'],
    path: '/v1/scan/sync/request',
    headers: { 'x-pan-token': '{credentials.AIRS_API_KEY}' },
    derives: ({ parameters, model }) => ({ model: valueAt(parameters, 'ai_model') ?? model }),
    body: {
      tr_id: '{traceId}',
      ai_profile: {
        profile_name: '{parameters.profile_name}',
        profile_id: '{parameters.profile_id}',
      },
      metadata: {
        ai_model: '{derived.model}',
        app_user: '{parameters.app_user}',
        app_name: '{parameters.app_name}',
      },
      contents: [{ byPhase: { input: { prompt: '{text}' }, output: { response: '{text}' } } }],
    },
    needs: [{ at: 'action', is: 'string', oneOf: ['allow', 'block'] }],
    fails: [{ at: 'action', equals: 'block', called: 'profile' }],
    tells: [
      { at: 'prompt_detected.*', equals: true },
      { at: 'response_detected.*', equals: true },
    ],
  },
  {
    ...pillar('prompt', pillarScanners),
    id: 'pillar.scanPrompt',
    description: 'Asks the scanners of Pillar Security about a request.',
    phases: ['input'],
  },
  {
    ...pillar('response', ['pii', 'secrets', 'toxic_language']),
    id: 'pillar.scanResponse',
    description: 'Asks the scanners of Pillar Security about an answer.',
    phases: ['output'],
  },
  {
    ...promptSecurity('prompt'),
    id: 'promptsecurity.protectPrompt',
    description: 'Asks Prompt Security about a request.',
    phases: ['input'],
  },
  {
    ...promptSecurity('response'),
    id: 'promptsecurity.protectResponse',
    description: 'Asks Prompt Security about an answer.',
    phases: ['output'],
  },
  {
    id: 'sydelabs.sydeguard',
    description: 'Asks SydeGuard for injected instructions, toxicity and evasion.',
    phases: ['input', 'output'],
    parameters: {
      prompt_injection_threshold: Threshold('Fail above this score of PROMPT_INJECT.', 0.5),
      toxicity_threshold: Threshold('Fail above this score of TOXIC.', 0.5),
      evasion_threshold: Threshold('Fail above this score of EVASION.', 0.5),
    },
    credentials: { apiKey: serviceFields.secret('Key of SydeLabs.') },
    base: ['https://guard.sydelabs.ai'],
    path: '/api/v1/guard/generate-score',
    headers: { 'x-api-key': '{credentials.apiKey}' },
    body: { prompt: '{text}' },
    needs: [{ at: 'category_scores.*.score', is: 'number' }],
    fails: [
      ['PROMPT_INJECT', 'prompt_injection'],
      ['TOXIC', 'toxicity'],
      ['EVASION', 'evasion'],
    ].map(([name = '', kind = '']) => ({
      at: 'category_scores.*.score',
      above: `{parameters.${kind}_threshold}`,
      named: 'category',
      among: [name],
    })),
  },
  {
    id: 'zscaler.guard',
    description: 'Asks a detections policy of Zscaler AI Guard.',
    phases: ['input', 'output'],
    parameters: {
      policyId: Type.Union([Type.String({ minLength: 1, maxLength: 64 }), Type.Integer({ minimum: 0 })], {
        description: 'Policy to execute.',
      }),
    },
    credentials: {
      zscalerApiKey: serviceFields.secret('DAS application key of Zscaler AI Guard.'),
      cloud: Type.Optional(
        host('Host of your tenant: `api.us1.zseclipse.net`.', { default: 'api.zseclipse.net' }),
      ),
    },
    timeoutMs: 10_000,
    base: ['https://{credentials.cloud}'],
    path: '/v1/detection/execute-policy',
    headers: { authorization: 'Bearer {credentials.zscalerApiKey}' },
    derives: ({ parameters }) => {
      const id = valueAt(parameters, 'policyId');
      return { policy: typeof id === 'string' && /^\d{1,15}$/.test(id) ? Number(id) : id };
    },
    body: {
      policyId: '{derived.policy}',
      direction: { byPhase: { input: 'IN', output: 'OUT' } },
      content: '{text}',
    },
    needs: [{ at: 'action', is: 'string', oneOf: ['ALLOW', 'DETECT', 'BLOCK'] }],
    fails: [{ at: 'action', equals: 'BLOCK', called: 'policy' }],
    tells: [{ at: 'detectorResponses.*.action', equals: 'BLOCK' }],
  },
];
