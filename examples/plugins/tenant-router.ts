// Sends each tenant's requests through a config of its own. The tenant is a member of the metadata, which keys and tokens
// can fix; an unknown one goes to `otherwise`, or is refused.
//
//   - ./tenant-router.ts: { by: tenant, configs: { acme: acme-eu, initech: initech-azure }, otherwise: shared }
import { definePlugin, GatewayError, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'tenant-router',
  description: 'Chooses the config by a member of the metadata.',
  schema: Type.Object(
    {
      by: Type.String({ minLength: 1, description: 'The member of the metadata.' }),
      configs: Type.Record(Type.String(), Type.String(), { description: 'Slugs of configs by tenant.' }),
      otherwise: Type.Optional(Type.String()),
    },
    { additionalProperties: false },
  ),
  create({ by, configs, otherwise }, scope) {
    const bySlug = new Map(Object.entries(configs));
    return {
      request(context) {
        const tenant = context.facts.metadata[by] ?? '';
        const config = bySlug.get(tenant) ?? otherwise;
        if (config === undefined) {
          const known = [...bySlug.keys()].slice(0, 10).join(', ');
          throw new GatewayError(
            'invalid_request',
            `No tenant "${tenant}". Say one of ${known} as metadata "${by}".`,
          );
        }
        context.setHeader(`${scope.headerPrefix}-config`, config);
      },
    };
  },
});
