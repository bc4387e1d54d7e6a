/** What each service answers in its documented form, and what it must have been asked. A row without one fails the suite. */
import type { JsonValue } from '../../../core/pipeline/plugin.ts';

/** One request as a service got it. */
export interface Got {
  readonly path: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface StandIn {
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly credentials?: Readonly<Record<string, unknown>>;
  /** The path with its query, and a header that holds the credential. */
  readonly path: string;
  readonly header?: readonly [name: string, value: string | RegExp];
  /** A part of the body for the text `My mail is ann@example.com`. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly passes: JsonValue;
  readonly fails: JsonValue;
  readonly findings: readonly string[];
  /** JSON with status 200 that says nothing of the text. */
  readonly vague: JsonValue;
  /** What becomes of the text with `redact` (or the parameters of `replacing`), when the service says `replacing`. */
  readonly replaced?: string;
  readonly replacing?: {
    readonly answer: JsonValue;
    readonly parameters?: Readonly<Record<string, unknown>>;
  };
}

export const judged = 'My mail is ann@example.com';
const secret = 'never-shown-0123456789';
const key = { apiKey: secret };
const bearer = ['authorization', `Bearer ${secret}`] as const;

const azureKey = { resourceName: 'mine', apiKey: secret };
const azureHeader = ['ocp-apim-subscription-key', secret] as const;
const azureSafety = { credentials: { contentSafety: azureKey }, header: azureHeader };

const evaluation = (pass: boolean, more: object = {}): JsonValue => ({
  results: [{ error_message: null, evaluation_result: { pass, score_raw: 0.2, ...more } }],
});
const patronus = (evaluator: string, criteria?: string): StandIn => ({
  credentials: key,
  path: '/v1/evaluate',
  header: ['x-api-key', secret],
  body: {
    evaluators: [{ evaluator, explain_strategy: 'always', ...(criteria !== undefined && { criteria }) }],
    evaluated_model_input: 'What is your mail?',
    evaluated_model_output: judged,
  },
  passes: evaluation(true),
  fails: evaluation(false, { explanation: 'Because.' }),
  findings: [],
  vague: { results: [{ error_message: 'no credits', evaluation_result: null }] },
});
const patronusFinding = (evaluator: string): StandIn => ({
  ...patronus(evaluator),
  body: {
    evaluators: [{ evaluator, explain_strategy: 'always' }],
    evaluated_model_output: judged,
  },
  findings: [evaluator],
  replaced: 'My mail is [REDACTED]',
  replacing: { answer: evaluation(false, { additional_info: { positions: [[11, 26]] } }) },
});

const qualifire = (body: object, more: Partial<StandIn> = {}): StandIn => ({
  credentials: key,
  path: '/api/evaluation/evaluate',
  header: ['x-qualifire-api-key', secret],
  body: { ...body },
  passes: { status: 'success', score: 100, evaluationResults: [] },
  fails: {
    status: 'failed',
    score: 0,
    evaluationResults: [{ type: 'x', results: [{ name: 'leak', label: 'leak', flagged: true }] }],
  },
  findings: ['evaluation', 'leak'],
  vague: { error: 'quota' },
  ...more,
});

const promptfoo = (name: string, more: object = {}) =>
  ({
    path: `/${name}`,
    body: { input: judged },
    passes: { model: name, results: [{ flagged: false, categories: { [name]: false }, ...more }] },
    fails: { model: name, results: [{ flagged: true, categories: { [name]: true }, ...more }] },
    findings: [name],
    vague: { results: [] },
  }) satisfies StandIn;

const search = (query: object, text: string): Partial<StandIn> & Pick<StandIn, 'replaced' | 'body'> => ({
  credentials: key,
  path: '/search',
  body: { ...query },
  passes: { results: [] },
  vague: { error: 'x' },
  findings: [],
  replaced: judged,
  replacing: {
    answer: { results: [{ title: 'Ann', url: 'https://a.example.com', [text]: 'Her mail.' }] },
  },
});

export const standIns: Readonly<Record<string, StandIn>> = {
  'azure.contentSafety': {
    ...azureSafety,
    parameters: { severity: 4 },
    path: '/contentsafety/text:analyze?api-version=2024-11-01',
    body: { text: judged, categories: ['Hate', 'SelfHarm', 'Sexual', 'Violence'], blocklistNames: [] },
    passes: { blocklistsMatch: [], categoriesAnalysis: [{ category: 'Hate', severity: 2 }] },
    fails: {
      blocklistsMatch: [{ blocklistName: 'mine', blocklistItemId: '1', blocklistItemText: 'ann' }],
      categoriesAnalysis: [
        { category: 'Hate', severity: 0 },
        { category: 'Violence', severity: 4 },
      ],
    },
    findings: ['Violence', 'blocklist', 'mine'],
    vague: { blocklistsMatch: [], categoriesAnalysis: [] },
  },
  'azure.shieldPrompt': {
    ...azureSafety,
    path: '/contentsafety/text:shieldPrompt?api-version=2024-09-01',
    body: { userPrompt: judged },
    passes: { userPromptAnalysis: { attackDetected: false }, documentsAnalysis: [] },
    fails: { userPromptAnalysis: { attackDetected: true } },
    findings: ['attack'],
    vague: { documentsAnalysis: [] },
  },
  'azure.protectedMaterial': {
    ...azureSafety,
    path: '/contentsafety/text:detectProtectedMaterial?api-version=2024-09-01',
    body: { text: judged },
    passes: { protectedMaterialAnalysis: { detected: false } },
    fails: { protectedMaterialAnalysis: { detected: true } },
    findings: ['protected material'],
    vague: { protectedMaterialAnalysis: {} },
  },
  'azure.pii': {
    credentials: { pii: azureKey },
    path: '/language/:analyze-text?api-version=2024-11-01',
    header: azureHeader,
    body: {
      kind: 'PiiEntityRecognition',
      parameters: { domain: 'none', modelVersion: 'latest' },
      analysisInput: { documents: [{ id: '0', language: 'en', text: judged }] },
    },
    passes: { results: { documents: [{ id: '0', redactedText: judged, entities: [] }], errors: [] } },
    fails: {
      results: {
        documents: [
          {
            id: '0',
            redactedText: 'My mail is ***************',
            entities: [{ text: 'ann@example.com', category: 'Email' }],
          },
        ],
        errors: [],
      },
    },
    findings: ['Email'],
    vague: { results: { documents: [], errors: [{ id: '0', error: { code: 'InvalidDocument' } }] } },
    replaced: 'My mail is ***************',
  },
  'bedrock.guard': {
    parameters: { guardrailId: 'abc', guardrailVersion: '1' },
    credentials: {
      awsRegion: 'us-east-1',
      awsAccessKeyId: 'AKIDEXAMPLE',
      awsSecretAccessKey: secret,
    },
    path: '/guardrail/abc/version/1/apply',
    header: ['authorization', /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/us-east-1\/bedrock\//],
    body: { source: 'INPUT', content: [{ text: { text: judged } }] },
    passes: { action: 'NONE', assessments: [], outputs: [], usage: {} },
    fails: {
      action: 'GUARDRAIL_INTERVENED',
      outputs: [{ text: 'Blocked.' }],
      assessments: [{ topicPolicy: { topics: [{ name: 'Mail', type: 'DENY', action: 'BLOCKED' }] } }],
    },
    findings: ['guardrail', 'Mail'],
    vague: { message: 'not authorized' },
    replaced: 'My mail is {EMAIL}',
    replacing: {
      answer: {
        action: 'GUARDRAIL_INTERVENED',
        outputs: [{ text: 'My mail is {EMAIL}' }],
        assessments: [
          {
            sensitiveInformationPolicy: {
              piiEntities: [{ match: 'ann@example.com', type: 'EMAIL', action: 'ANONYMIZED' }],
            },
          },
        ],
      },
    },
  },
  'mistral.moderateContent': {
    parameters: { categories: ['pii', 'sexual'] },
    credentials: key,
    path: '/v1/moderations',
    header: bearer,
    body: { model: 'mistral-moderation-latest', input: [judged] },
    passes: { id: '1', results: [{ categories: { pii: false, sexual: false, law: true } }] },
    fails: { id: '1', results: [{ categories: { pii: true, sexual: false, law: true } }] },
    findings: ['pii'],
    vague: { results: [{ categories: {} }] },
  },
  'acuvity.scan': {
    parameters: {
      pii_categories: ['email_address'],
      toxic_threshold: 0.8,
      jail_break: false,
    },
    credentials: key,
    path: '/_acuvity/scan',
    header: bearer,
    body: { messages: [judged], type: 'Input', anonymization: 'FixedSize', redactions: [] },
    passes: {
      extractions: [{ data: judged, malcontents: { toxic: 0.7 }, exploits: { jailbreak: 0.9 } }],
    },
    fails: {
      extractions: [{ data: judged, malcontents: { toxic: 0.9 }, PIIs: { email_address: 1, person: 1 } }],
    },
    findings: ['toxic', 'email_address'],
    vague: { extractions: [] },
    replaced: 'My mail is XXX',
    replacing: {
      parameters: { pii_redact: true },
      answer: { extractions: [{ data: 'My mail is XXX', PIIs: { email_address: 1 } }] },
    },
  },
  'akto.scan': {
    credentials: { ...key, apiDomain: '1-guardrails.akto.io' },
    path: '/api/http-proxy?guardrails=true&ingest_data=false',
    header: ['authorization', secret],
    body: { requestPayload: JSON.stringify({ body: judged }), responsePayload: '{}' },
    passes: { data: { guardrailsResult: { Allowed: true, Reason: '' } } },
    fails: { data: { guardrailsResult: { Allowed: false, Reason: 'It leaks.' } } },
    findings: ['policy'],
    vague: { data: {} },
  },
  'crowdstrike-aidr.guardChatCompletions': {
    credentials: { ...key, baseUrl: 'https://api.example.com/aidr' },
    path: '/v1/guard_chat_completions',
    header: bearer,
    body: { event_type: 'input', model: 'gpt-4o', llm_provider: 'openai', user_id: 'ann' },
    passes: { status: 'Success', result: { blocked: false, transformed: false, policy: 'p' } },
    fails: { status: 'Success', result: { blocked: true, policy: 'p' } },
    findings: ['policy'],
    vague: { status: 'Accepted', result: {} },
    replaced: judged,
    replacing: {
      answer: {
        status: 'Success',
        result: { blocked: false, transformed: true, guard_output: { model: 'other' } },
      },
    },
  },
  'f5-guardrails.scan': {
    parameters: { projectId: 'p1' },
    credentials: key,
    path: '/backend/v1/scans',
    header: bearer,
    body: { input: judged, project: 'p1' },
    passes: { id: '1', result: { outcome: 'cleared', scannerResults: [] } },
    fails: { id: '1', result: { outcome: 'flagged', scannerResults: [] } },
    findings: ['flagged'],
    vague: { id: '1', result: { outcome: 'pending' } },
    replaced: 'My mail is ****',
    replacing: { answer: { redactedInput: 'My mail is ****', result: { outcome: 'redacted' } } },
  },
  'javelin.guardrails': {
    credentials: { ...key, application: 'mine' },
    path: '/v1/guardrails/apply',
    header: ['x-javelin-apikey', secret],
    body: { input: { text: judged }, config: {}, metadata: {} },
    passes: { assessments: [{ trustsafety: { request_reject: false, results: {} } }] },
    fails: {
      assessments: [
        { promptinjectiondetection: { request_reject: true, results: { reject_prompt: 'No.' } } },
      ],
    },
    findings: ['promptinjectiondetection'],
    vague: { assessments: [] },
  },
  'lakera.guard': {
    parameters: { projectID: 'p' },
    credentials: key,
    path: '/v2/guard',
    header: bearer,
    body: { messages: [{ role: 'user', content: judged }], project_id: 'p', breakdown: true },
    passes: { flagged: false, breakdown: [] },
    fails: {
      flagged: true,
      breakdown: [{ detector_type: 'prompt_attack', detected: true }],
      payload: [],
    },
    findings: ['policy', 'prompt_attack'],
    vague: { error: 'x' },
    replaced: 'My mail is [PII/EMAIL]',
    replacing: {
      answer: {
        flagged: true,
        breakdown: [{ detector_type: 'pii/email', detected: true }],
        payload: [{ start: 11, end: 26, text: 'ann@example.com', detector_type: 'pii/email' }],
      },
    },
  },
  'lasso.classify': {
    parameters: { messages: [], userId: 'ann' },
    credentials: key,
    path: '/gateway/v2/classify',
    header: ['lasso-api-key', secret],
    body: { messages: [{ role: 'user', content: judged }] },
    passes: { deputies: { jailbreak: false }, deputies_predictions: {}, violations_detected: false },
    fails: { deputies: { jailbreak: true, sexual: false }, violations_detected: true },
    findings: ['violation', 'jailbreak'],
    vague: { deputies: {} },
  },
  'pangea.textGuard': {
    parameters: { recipe: 'strict' },
    credentials: { ...key, domain: 'aws.us.pangea.cloud' },
    path: '/v1/text/guard',
    header: bearer,
    body: { text: judged, recipe: 'strict' },
    passes: {
      status: 'Success',
      result: { detectors: { prompt_injection: { detected: false }, language: { detected: true } } },
    },
    fails: { status: 'Success', result: { detectors: { pii_entity: { detected: true, data: {} } } } },
    findings: ['pii_entity'],
    vague: { status: 'Accepted', result: { location: 'https://x' } },
  },
  'pangea.pii': {
    credentials: { ...key, domain: 'aws.us.pangea.cloud' },
    path: '/v1/redact_structured',
    header: bearer,
    body: { data: [judged] },
    passes: { status: 'Success', result: { count: 0 } },
    fails: { status: 'Success', result: { count: 1, redacted_data: ['My mail is <EMAIL>'] } },
    findings: ['personal data'],
    vague: { status: 'Success', result: null },
    replaced: 'My mail is <EMAIL>',
  },
  'panw-prisma-airs.intercept': {
    parameters: { profile_name: 'strict', app_user: 'ann' },
    credentials: { AIRS_API_KEY: secret },
    path: '/v1/scan/sync/request',
    header: ['x-pan-token', secret],
    body: {
      tr_id: 'trace-1',
      ai_profile: { profile_name: 'strict' },
      metadata: { ai_model: 'gpt-4o', app_user: 'ann', app_name: 'weir' },
      contents: [{ prompt: judged }],
    },
    passes: { action: 'allow', category: 'benign', prompt_detected: { dlp: false } },
    fails: { action: 'block', category: 'malicious', prompt_detected: { dlp: true, url_cats: false } },
    findings: ['profile', 'dlp'],
    vague: { category: 'benign' },
  },
  'pillar.scanPrompt': {
    parameters: { scanners: ['pii', 'secrets'] },
    credentials: key,
    path: '/scan/prompt',
    header: bearer,
    body: { message: judged, scanners: { pii: true, secrets: true } },
    passes: { pii: false, secrets: null },
    fails: { pii: true, secrets: false },
    findings: ['pii'],
    vague: { pii: false },
  },
  'pillar.scanResponse': {
    parameters: { scanners: ['toxic_language'] },
    credentials: key,
    path: '/scan/response',
    header: bearer,
    body: { message: judged, scanners: { toxic_language: true } },
    passes: { toxic_language: false },
    fails: { toxic_language: { found: true } },
    findings: ['toxic_language'],
    vague: {},
  },
  'promptsecurity.protectPrompt': {
    credentials: { ...key, apiDomain: 'eu.prompt.security' },
    path: '/api/protect',
    header: ['app-id', secret],
    body: { prompt: judged },
    passes: { status: 'success', result: { prompt: { passed: true } } },
    fails: { status: 'success', result: { prompt: { passed: false, violations: ['Secrets'] } } },
    findings: ['prompt', 'Secrets'],
    vague: { result: { response: { passed: true } } },
  },
  'promptsecurity.protectResponse': {
    credentials: { ...key, apiDomain: 'eu.prompt.security' },
    path: '/api/protect',
    header: ['app-id', secret],
    body: { response: judged },
    passes: { result: { response: { passed: true } } },
    fails: { result: { response: { passed: false, violations: [] } } },
    findings: ['response'],
    vague: { result: {} },
  },
  'sydelabs.sydeguard': {
    parameters: { toxicity_threshold: 0.9 },
    credentials: key,
    path: '/api/v1/guard/generate-score',
    header: ['x-api-key', secret],
    body: { prompt: judged },
    passes: { category_scores: [{ category: 'TOXIC', score: 0.8, risk: true }] },
    fails: {
      category_scores: [
        { category: 'EVASION', score: 0.1 },
        { category: 'PROMPT_INJECT', score: 0.84 },
      ],
    },
    findings: ['PROMPT_INJECT'],
    vague: { category_scores: [] },
  },
  'zscaler.guard': {
    parameters: { policyId: '760' },
    credentials: { zscalerApiKey: secret },
    path: '/v1/detection/execute-policy',
    header: bearer,
    body: { policyId: 760, direction: 'IN', content: judged },
    passes: { statusCode: 200, action: 'ALLOW', detectorResponses: {} },
    fails: {
      statusCode: 200,
      action: 'BLOCK',
      detectorResponses: { pii: { action: 'BLOCK' }, toxicity: { action: 'DETECT' } },
    },
    findings: ['policy', 'pii'],
    vague: { statusCode: 404, errorMsg: 'Policy not found' },
  },
  'aporia.validateProject': {
    parameters: { projectID: 'p 1' },
    credentials: key,
    path: '/p%201/validate',
    header: ['x-aporia-api-key', secret],
    body: {
      messages: [{ role: 'user', content: judged }],
      validation_target: 'prompt',
      explain: true,
    },
    passes: { action: 'passthrough', revised_response: null },
    fails: {
      action: 'block',
      policy_execution_result: { policy_log: [{ policy_id: '1', policy_type: 'pii_on_input' }] },
    },
    findings: ['block', 'pii_on_input'],
    vague: { action: 'unheard-of' },
  },
  'exa.online': {
    ...(search({ query: judged, numResults: 5, contents: { text: true } }, 'text') as StandIn),
    header: ['x-api-key', secret],
  },
  'tavily.online': {
    ...(search({ query: judged, max_results: 5 }, 'content') as StandIn),
    header: bearer,
  },
  'patronus.isConcise': patronus('judge', 'patronus:is-concise'),
  'patronus.isHelpful': patronus('judge', 'patronus:is-helpful'),
  'patronus.isPolite': patronus('judge', 'patronus:is-polite'),
  'patronus.noApologies': patronus('judge', 'patronus:no-apologies'),
  'patronus.noGenderBias': patronus('judge', 'patronus:no-gender-bias'),
  'patronus.noRacialBias': patronus('judge', 'patronus:no-racial-bias'),
  'patronus.retrievalAnswerRelevance': patronus('answer-relevance'),
  'patronus.retrievalHallucination': patronus('hallucination'),
  'patronus.toxicity': patronus('toxicity'),
  'patronus.custom': { ...patronus('glider', 'a:b'), parameters: { profile: 'glider:a:b' } },
  'patronus.pii': patronusFinding('pii'),
  'patronus.phi': patronusFinding('phi'),
  'promptfoo.guard': promptfoo('guard'),
  'promptfoo.pii': {
    ...promptfoo('pii', { payload: { pii: [] } }),
    replaced: 'My mail is [EMAIL]',
    replacing: {
      answer: {
        results: [
          {
            flagged: true,
            payload: { pii: [{ entity_type: 'email', start: 11, end: 26, pii: 'ann@example.com' }] },
          },
        ],
      },
    },
  },
  'promptfoo.harm': promptfoo('harm'),
  'qualifire.contentModeration': qualifire({ input: judged, content_moderation_check: true }),
  'qualifire.grounding': qualifire({
    input: 'What is your mail?',
    output: judged,
    grounding_check: true,
    grounding_mode: 'balanced',
  }),
  'qualifire.hallucinations': qualifire(
    { output: judged, hallucinations_check: true, hallucinations_mode: 'speed' },
    { parameters: { mode: 'speed' } },
  ),
  'qualifire.pii': qualifire({ input: judged, pii_check: true }),
  'qualifire.policy': qualifire(
    { input: judged, assertions: ['Be nice.'], assertions_mode: 'balanced' },
    { parameters: { policies: ['Be nice.'] } },
  ),
  'qualifire.promptInjections': qualifire({ input: judged, prompt_injections: true }),
  'qualifire.toolUseQuality': qualifire({ tool_selection_quality_check: true, tsq_mode: 'balanced' }),
  'walledai.walledprotect': {
    credentials: key,
    path: '/v1/walled-protect',
    header: ['x-api-key', secret],
    body: { text: judged, generic_safety_check: true, greetings_list: ['Casual & Friendly'] },
    passes: { success: true, data: { safety: [{ safety: 'generic', isSafe: true, score: 1 }] } },
    fails: { success: true, data: { safety: [{ safety: 'generic', isSafe: false, score: 9 }] } },
    findings: ['generic'],
    vague: { success: true, data: { safety: [] } },
  },
};

/** What no result, error or log may hold. */
export const neverShown = secret;
