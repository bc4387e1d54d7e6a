// Asks a service of yours about each prompt: it gets `{ "texts": [...] }` and answers `{ "allowed": true }`, or false with
// a `reason`. When it is away, `when_away` decides: `refuse` the prompt, or `allow` it.
//
//   - ./external-checker.ts: { url: 'https://checks.example.com/prompt', when_away: refuse }
import { definePlugin, GatewayError, judged, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'external-checker',
  description: 'Lets a service decide whether a prompt may pass.',
  schema: Type.Object(
    {
      url: Type.String({
        format: 'uri',
        description: 'A public address, or one of `security.trusted_hosts`.',
      }),
      when_away: Type.Union([Type.Literal('refuse'), Type.Literal('allow')]),
      timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: 30_000, default: 2000 })),
    },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.text'], guardrail: true, timeoutMs: 30_000 },
  create({ url, when_away: whenAway, timeout_ms: timeoutMs = 2000 }, scope) {
    const ask = async (texts: readonly string[]): Promise<{ allowed?: unknown; reason?: unknown }> => {
      const { answer } = scope.guardedFetch.fetch({
        url,
        method: 'POST',
        headers: ['content-type', 'application/json'],
        body: Buffer.from(JSON.stringify({ texts })),
        timeoutMs,
        maxBytes: 65_536,
      });
      const { status, body } = await answer;
      if (status !== 200) throw new Error(`it answered ${status}`);
      return JSON.parse(body.toString()) as { allowed?: unknown; reason?: unknown };
    };
    return {
      async request(context) {
        const texts = context.conversation.texts.map(({ text }) => text);
        if (texts.length === 0) return void context.set(judged, 'skipped');
        const verdict = await ask(texts).catch((error: unknown) => {
          scope.log.warn('the checker did not answer', { request: context.id, error: String(error) });
          return undefined;
        });
        if (verdict?.allowed === true) context.set(judged, 'passed');
        else if (verdict?.allowed === false)
          throw new GatewayError(
            'hooks_failed',
            `The prompt is refused: ${JSON.stringify(verdict.reason ?? 'no reason')}`,
          );
        else if (whenAway === 'refuse')
          throw new GatewayError('hooks_failed', 'The prompt could not be checked. Try again later.');
        else context.set(judged, 'skipped');
      },
    };
  },
});
