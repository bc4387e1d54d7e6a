// A plugin as somebody else writes it from docs/plugins.md: numbers of cards leave no answer.
import { definePlugin, redactor, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'redact-cards',
  apiVersion: 1,
  description: 'Takes numbers of cards out of answers.',
  schema: Type.Object(
    { groups: Type.Integer({ minimum: 2, maximum: 5, default: 4, description: 'Groups of four digits.' }) },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['response.text'], changes: ['response.text'], stream: 'window', guardrail: true },
  create({ groups }) {
    const redaction = redactor([
      { pattern: `\\b(?:[0-9]{4}[ -]?){${groups - 1}}[0-9]{4}\\b`, replacement: '[card]' },
    ]);
    if (typeof redaction === 'string') throw new Error(redaction);
    return {
      response: (context) => void redaction.response(context),
      stream: (context) => redaction.stream(context),
    };
  },
});
