// Another one: a service outside decides, and the operator what happens while it does not answer.
import { definePlugin, GatewayError, judged, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'outside-judge',
  schema: Type.Object(
    { url: Type.String(), fail: Type.Union([Type.Literal('open'), Type.Literal('closed')]) },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.text'], guardrail: true, timeoutMs: 3000 },
  check: ({ url }) =>
    URL.canParse(url) ? [] : [{ path: '/url', message: 'this is no address; write it with https://' }],
  create({ url, fail }, scope) {
    const decided = scope.metrics.counter({
      name: 'outside_judge_total',
      help: 'Prompts by what came of them.',
      labels: ['outcome'],
    });
    return {
      async request(context) {
        const body = Buffer.from(JSON.stringify(context.conversation.texts.map(({ text }) => text)));
        const headers = ['content-type', 'application/json'];
        const asked = scope.guardedFetch.fetch({
          url,
          method: 'POST',
          headers,
          body,
          timeoutMs: 2000,
          maxBytes: 10_000,
        });
        const forget = context.onAbort(() => asked.abort());
        let status: number;
        try {
          ({ status } = await asked.answer);
        } catch (error) {
          scope.log.warn('nobody judges', { error });
          status = 0;
        } finally {
          forget();
        }
        const outcome = status === 204 ? 'passed' : status === 403 ? 'refused' : 'away';
        decided({ outcome }).inc();
        if (outcome === 'passed') return context.set(judged, 'passed');
        if (outcome === 'away' && fail === 'open') return context.set(judged, 'skipped');
        throw new GatewayError(
          'hooks_failed',
          outcome === 'refused' ? 'The prompt was refused.' : 'The prompt could not be judged.',
        );
      },
    };
  },
});
