// Refuses a request that could cost more than an amount: what it asks, estimated by its length, and the longest answer
// that it allows, at the price of the model that is about to be asked. A fallback to a cheaper model passes.
//
//   - ./cost-guard.ts: { most_usd: 0.05, answer_tokens: 4000, unpriced: refuse }
import { definePlugin, GatewayError, Type } from 'weir-gateway/plugin';

const bytesPerToken = 3;
const limits = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

export default definePlugin({
  name: 'cost-guard',
  description: 'Bounds what one request may cost.',
  schema: Type.Object(
    {
      most_usd: Type.Number({ exclusiveMinimum: 0 }),
      answer_tokens: Type.Integer({ minimum: 1, description: 'Of an answer without a limit of its own.' }),
      unpriced: Type.Union([Type.Literal('refuse'), Type.Literal('allow')]),
    },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.json'] },
  create({ most_usd: most, answer_tokens: usual, unpriced }, scope) {
    return {
      attempt({ attempt }) {
        const { json } = attempt.body;
        if (typeof json !== 'object' || json === null || Array.isArray(json)) return;
        const rates = scope.prices.rates(attempt.aiService, attempt.model, scope.clock.now());
        if (rates === undefined) {
          if (unpriced === 'allow') return;
          throw new GatewayError(
            'hooks_failed',
            `Nobody knows what ${attempt.model} costs. Ask another model.`,
          );
        }
        const said = limits.map((name) => json[name]).find((value) => typeof value === 'number');
        const asked = Math.ceil(attempt.body.bytes.length / bytesPerToken);
        const cost = asked * (rates.input ?? 0) + (said ?? usual) * (rates.output ?? 0);
        if (cost <= most) return;
        throw new GatewayError(
          'hooks_failed',
          `The request may cost ${cost.toFixed(4)} dollars, and ${most} is the most. Send less, or set a lower max_tokens.`,
        );
      },
    };
  },
});
