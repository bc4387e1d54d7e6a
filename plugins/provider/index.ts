import { definePlugin, Type } from '../../core/pipeline/plugin.ts';

const milliseconds = (description: string, fallback: number) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400_000, default: fallback, description }));

/** Sends the request to the provider that it names and returns the provider's answer. */
export default definePlugin({
  name: 'provider',
  description:
    'Sends the request to the provider that its headers name, or through the targets of its config, and returns the answer.',
  schema: Type.Object(
    {
      default: Type.Optional(
        Type.String({ minLength: 1, description: 'Provider for requests that name none.' }),
      ),
      config: Type.Optional(
        Type.String({
          minLength: 1,
          description:
            'Config (a name under `configs:`) for requests that name neither a config nor a provider.',
        }),
      ),
      connect_timeout_ms: milliseconds('Longest wait for a connection to the provider.', 10_000),
      head_timeout_ms: milliseconds('Longest wait for the head of the answer; 0 for no bound.', 600_000),
      idle_timeout_ms: milliseconds(
        'Longest pause between two pieces of an answer; 0 for no bound.',
        120_000,
      ),
      request_timeout_ms: milliseconds(
        'Longest time for a whole attempt, streams to their last byte; 0 for no bound. Configs and the header `request-timeout` win.',
        0,
      ),
      first_token_timeout_ms: milliseconds(
        'Longest wait for the first token of an answer; 0 for no bound. Configs win.',
        0,
      ),
      max_answer_bytes: Type.Optional(
        Type.Integer({
          minimum: 1024,
          default: 67_108_864,
          description:
            'Largest answer that is buffered as a whole. Streams and unmodelled answers have no such limit.',
        }),
      ),
      strict_open_ai_compliance: Type.Optional(
        Type.Boolean({
          default: true,
          description:
            'Refuse parameters that only some providers support: `thinking`, tools other than functions, moderation models other than `text-moderation-stable` and `text-moderation-latest`. The header of the same name takes precedence.',
        }),
      ),
      on_drop: Type.Optional(
        Type.Union([Type.Literal('report'), Type.Literal('refuse')], {
          default: 'report',
          description:
            'Handling of a part of a request that the wire of the provider cannot express: report it in the header `x-service-dropped` and in the log, or refuse the request. The setting of a provider takes precedence.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  // No timeout of its own: the options above bound it, and a stream may be long.
  capabilities: { answers: true, timeoutMs: 0 },
  create(options, scope) {
    const { router } = scope;
    const missing = options.config === undefined ? undefined : router.missingConfig(options.config);
    if (missing !== undefined) throw new Error(missing);
    const nothing: readonly string[] = [];
    const route = {
      defaultProvider: options.default,
      defaultConfig: options.config,
      connectTimeoutMs: options.connect_timeout_ms ?? 10_000,
      headTimeoutMs: options.head_timeout_ms ?? 600_000,
      idleTimeoutMs: options.idle_timeout_ms ?? 120_000,
      maxAnswerBytes: options.max_answer_bytes ?? 67_108_864,
      strictOpenAiCompliance: options.strict_open_ai_compliance ?? true,
      requestTimeoutMs: options.request_timeout_ms ?? 0,
      firstTokenTimeoutMs: options.first_token_timeout_ms ?? 0,
      onDrop: options.on_drop ?? 'report',
      configOnDrop: undefined,
      forwardHeaders: nothing,
      sensitiveHeaders: nothing,
    };
    return { request: (context) => router.answer(context, route) };
  },
});
