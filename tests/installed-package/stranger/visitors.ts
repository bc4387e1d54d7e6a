// A third one, with a route, state and a metric of its own.
import { definePlugin, defineRoute, GatewayError, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'visitors',
  schema: Type.Object({ most: Type.Integer({ minimum: 1 }) }, { additionalProperties: false }),
  capabilities: { reads: ['request.json'], routes: true },
  create({ most }, scope) {
    const byModel = new Map<string, number>();
    const seen = scope.metrics.counter({
      name: 'visitors_total',
      help: 'Requests by model.',
      labels: ['model'],
    });
    return {
      async request(context) {
        const window = { key: 'visitors', limit: most, windowMs: 60_000 };
        const { allowed } = await scope.counters.take([window], 1, 'open');
        if (!allowed)
          throw new GatewayError('rate_limited', `More than ${most} visitors in a minute. Come back later.`);
        const [model = 'none'] = context.models.names;
        byModel.set(model, (byModel.get(model) ?? 0) + 1);
        seen({ model }).inc();
      },
      routes: [
        defineRoute({
          id: 'visitors.list',
          method: 'GET',
          path: '/visitors',
          summary: 'Requests by model since the configuration was loaded',
          scope: 'logs.view',
          audit: null,
          query: Type.Object({ model: Type.Optional(Type.String()) }),
          reply: Type.Object({
            visitors: Type.Array(Type.Object({ model: Type.String(), count: Type.Integer() })),
          }),
          handle: ({ query }) => ({
            visitors: [...byModel]
              .filter(([model]) => query.model === undefined || query.model === model)
              .map(([model, count]) => ({ model, count })),
          }),
        }),
      ],
    };
  },
});
