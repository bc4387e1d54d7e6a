// Takes personal data out of what models answer, whole or streamed: no part of a match leaves, however a stream is cut.
//
//   - ./redact-personal-data.ts: { also: ['EMP-[0-9]{6}'] }
import { definePlugin, redactor, Type, type RedactorRule } from 'weir-gateway/plugin';

const personal: readonly RedactorRule[] = [
  { pattern: String.raw`\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b`, replacement: '[email]' },
  { pattern: String.raw`\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`, replacement: '[ssn]' },
  { pattern: String.raw`\b(?:[0-9]{4}[ -]?){3}[0-9]{4}\b`, replacement: '[card]' },
  { pattern: String.raw`\+[0-9]{1,3}[ -]?(?:[0-9]{2,4}[ -]?){2,4}`, replacement: '[phone]' },
];

const schema = Type.Object(
  {
    also: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: 'Further expressions of RE2, each with a greatest length.',
        maxItems: 50,
      }),
    ),
  },
  { additionalProperties: false },
);

function redactionOf(also: readonly string[] = []): ReturnType<typeof redactor> {
  return redactor([...personal, ...also.map((pattern) => ({ pattern }))]);
}

export default definePlugin({
  name: 'redact-personal-data',
  description: 'Takes e-mail addresses, cards, phone and social security numbers out of answers.',
  schema,
  capabilities: { reads: ['response.text'], changes: ['response.text'], stream: 'window', guardrail: true },
  check({ also }) {
    const redaction = redactionOf(also);
    return typeof redaction === 'string' ? [{ path: '/also', message: redaction }] : [];
  },
  create({ also }) {
    const redaction = redactionOf(also);
    if (typeof redaction === 'string') throw new Error(redaction);
    return {
      response: (context) => void redaction.response(context),
      stream: (context) => redaction.stream(context),
    };
  },
});
