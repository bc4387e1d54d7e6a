import type { Clock } from '../../core/ports/clock.ts';
import { definePlugin, GatewayError, judged } from '../../core/pipeline/plugin.ts';
import { RequestParametersSchema } from './options.ts';
import { compileRules, findViolation, type Violation } from './rules.ts';

/** Refuses requests by their tools, parameters and values: 446 `hooks_failed`. Bodies that are no JSON object pass. */
export default definePlugin({
  name: 'request-parameters',
  description:
    'Refuses requests that use blocked, or not allowed, tools, functions, parameters or parameter values. Uploads and other binary bodies are not read.',
  schema: RequestParametersSchema,
  checks: ['default.requestParametersCheck'],
  capabilities: { guardrail: true, reads: ['request.json'] },
  create(options, { clock }) {
    const rules = compileRules(options);
    return {
      request(context) {
        const { json } = context;
        if (typeof json !== 'object' || json === null || Array.isArray(json)) {
          context.set(judged, 'skipped');
          return;
        }
        const startedAt = clock.monotonic();
        const violation = findViolation(json, rules);
        if (violation) throw refusal(violation, startedAt, clock);
        context.set(judged, 'passed');
      },
    };
  },
});

function refusal(violation: Violation, startedAt: number, clock: Clock): GatewayError {
  const { param, rule } = violation;
  const found = describe(violation.found);
  const verdict = violation.blocked ? 'is blocked' : 'is not allowed';
  // For a parameter that is refused as such, `param` and what was found are the same word.
  const explanation = `"${param}"${found === JSON.stringify(param) ? '' : ` with ${found}`} ${verdict} by the rule ${rule}.`;
  const timing = {
    execution_time: Math.round(clock.monotonic() - startedAt),
    created_at: new Date(clock.now()).toISOString(),
  };
  const check = {
    id: 'default.requestParametersCheck',
    verdict: false,
    data: { explanation, rule, param, value: found },
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
  return new GatewayError('hooks_failed', `The request was refused: ${explanation}`, {
    param,
    extra: { hook_results: { before_request_hooks: [hook], after_request_hooks: [] } },
  });
}

/** A value of the body as people read it, short. */
function describe(value: Violation['found']): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  const text = typeof value === 'bigint' ? value.toString() : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}
