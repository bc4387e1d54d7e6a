import type { DocumentObject } from './operation.ts';

interface SteeringHeader {
  readonly description: string;
  readonly schema: DocumentObject;
  readonly example: unknown;
  readonly deprecated?: boolean;
}

const text = { type: 'string' };
const shortText = { type: 'string', maxLength: 255 };
const only = (value: string) => ({ type: 'string', enum: [value] });
const names = 'names with commas between them, at most 64';

/** The headers that steer the gateway, by their names without the prefix (`docs/headers.md`). */
const steering: Readonly<Record<string, SteeringHeader>> = {
  provider: {
    description:
      'The provider: its name, or `@slug` of one in the configuration, whose credential is then used.',
    ...{ schema: text, example: '@openai' },
  },
  'virtual-key': {
    description: 'A provider of the configuration. Use `provider`.',
    ...{ schema: text, example: 'openai', deprecated: true },
  },
  config: {
    description: 'Where the request goes, and how often it is tried: the slug of a config, or one as JSON.',
    ...{ schema: text, example: '{"retry":{"attempts":3}}' },
  },
  'custom-host': {
    description: 'Replaces the address of the provider, which `provider` still names.',
    ...{ schema: { type: 'string', format: 'uri' }, example: 'https://models.example/v1' },
  },
  'fetch-integrated-models': {
    description: 'Lists the models of all configured providers although the request names one.',
    ...{ schema: only('true'), example: 'true' },
  },
  'request-timeout': {
    description: 'The longest that one try may take, in milliseconds.',
    ...{ schema: { type: 'integer', minimum: 1, maximum: 86_400_000 }, example: 30_000 },
  },
  'forward-headers': {
    description: `These headers reach the provider also where the request is translated: ${names}.`,
    ...{ schema: text, example: 'x-tenant' },
  },
  'sensitive-headers': {
    description: `These headers never reach the provider, and are logged as a digest: ${names}.`,
    ...{ schema: text, example: 'x-session' },
  },
  'strict-open-ai-compliance': {
    description: '`false`: answers keep what the shape of OpenAI has no place for.',
    ...{ schema: { type: 'string', enum: ['true', 'false'] }, example: 'false' },
  },
  debug: {
    description: '`false`: no bodies are logged, and the cache is left out.',
    ...{ schema: only('false'), example: 'false' },
  },
  explain: {
    description: 'Notes why the request goes where it goes; needs an owner key or the scope `logs.view`.',
    ...{ schema: only('true'), example: 'true' },
  },
  'cache-force-refresh': {
    description: 'Does not ask the cache, and keeps the new answer.',
    ...{ schema: only('true'), example: 'true' },
  },
  'cache-namespace': {
    description: "Parts the cache by this text, not by metadata and the client's other headers.",
    ...{ schema: text, example: 'tests' },
  },
  'trace-id': {
    description: 'Groups requests in the log.',
    ...{ schema: shortText, example: 'checkout-7' },
  },
  'span-id': {
    description: 'This request within its trace.',
    ...{ schema: shortText, example: 'step-2' },
  },
  'parent-span-id': {
    description: 'What this request is a part of.',
    ...{ schema: shortText, example: 'step-1' },
  },
  'span-name': {
    description: 'What this request is called.',
    ...{ schema: shortText, example: 'summarise' },
  },
  metadata: {
    description: 'A JSON object of at most 64 keys, with 128 characters per key and value; is logged.',
    ...{ schema: text, example: '{"team":"search"}' },
  },
};

/** The headers as parameters of the document, by component name. `prefix` is `server.header_prefix`. */
export function steeringParameters(prefix: string): Readonly<Record<string, DocumentObject>> {
  const entries = Object.entries(steering).map(([name, header]) => [
    `Header.${name}`,
    { name: `${prefix}-${name}`, in: 'header', required: false, ...header },
  ]);
  return Object.fromEntries(entries) as Record<string, DocumentObject>;
}

/** What the gateway adds to answers, by component name. */
export function answerHeaders(prefix: string): Readonly<Record<string, DocumentObject>> {
  const header = (description: string, schema: DocumentObject): DocumentObject => ({ description, schema });
  return {
    [`${prefix}-request-id`]: header('Under this id the log has the request.', text),
    [`${prefix}-trace-id`]: header('The trace of the request.', text),
    [`${prefix}-provider`]: header('The provider that was chosen, without `@`.', text),
    [`${prefix}-cache-status`]: header('What the cache did.', {
      type: 'string',
      enum: ['HIT', 'SEMANTIC HIT', 'MISS', 'SEMANTIC MISS', 'REFRESH', 'DISABLED'],
    }),
    [`${prefix}-retry-attempt-count`]: header('Tries after the first one; -1 when all failed.', {
      type: 'integer',
      minimum: -1,
    }),
    [`${prefix}-last-used-option-index`]: header('Which target of the config answered.', text),
  };
}

/** Those that every answer has; the others stand on what went to a provider. */
export const alwaysAnswered: readonly string[] = ['request-id', 'trace-id'];
