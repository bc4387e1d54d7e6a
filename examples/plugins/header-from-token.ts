// Verifies the JSON Web Token of the person behind a request and tells the provider one of its claims as a header. The
// application's own key still lets the request in; this says for whom it asks.
//
//   - ./header-from-token.ts:
//       { token: x-user-token, keys: { url: 'https://login.example.com/jwks.json' }, claim: sub, header: x-end-user }
import { definePlugin, GatewayError, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'header-from-token',
  description: 'Tells the provider a claim of a verified token.',
  schema: Type.Object(
    {
      token: Type.String({ minLength: 1, description: 'The header that holds the token.' }),
      keys: Type.Union([Type.Object({ url: Type.String() }), Type.Object({ set: Type.Unknown() })]),
      issuers: Type.Optional(Type.Array(Type.String())),
      audiences: Type.Optional(Type.Array(Type.String())),
      claim: Type.String({ minLength: 1 }),
      header: Type.String({ minLength: 1, description: 'The header that the provider gets.' }),
    },
    { additionalProperties: false },
  ),
  create({ token, keys, issuers = [], audiences = [], claim, header }, scope) {
    const tokens = scope.tokens.verifier({
      keys,
      issuers,
      audiences,
      algorithms: ['RS256', 'ES256', 'EdDSA'],
      clockToleranceMs: 30_000,
      maxAgeMs: 600_000,
      timeoutMs: 5000,
    });
    return {
      async request(context) {
        // What the client says in this header itself proves nothing.
        context.setHeader(header, undefined);
        const given = context.header(token.toLowerCase());
        if (given === undefined)
          throw new GatewayError('token_invalid', `Send the user's token in ${token}.`);
        tokens.keepFresh();
        const { claims } = await tokens.verify(given);
        const value = claims[claim];
        if (typeof value !== 'string')
          throw new GatewayError('token_invalid', `The token has no claim "${claim}".`);
        context.setHeader(token, undefined);
        context.setHeader(header, encodeURIComponent(value));
      },
    };
  },
});
