/** The stand-ins of services that judge content and style, and of those that search. */
import type { JsonValue } from '../../../core/pipeline/plugin.ts';
import { bearer, judged, key, neverShown as secret, type StandIn } from './stand-in.test-support.ts';

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

export const qualityStandIns: Readonly<Record<string, StandIn>> = {
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
