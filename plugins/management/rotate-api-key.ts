import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { apiKeyExample, secretExample } from './api-key-examples.ts';
import { keyScopes, readScopes, visibleKey } from './api-key-access.ts';
import { newSecret } from './key-secret.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';
import { requireNotAbove } from './user-key-rules.ts';

const minuteMs = 60_000;
const defaultTransitionMs = 30 * minuteMs;
const longestTransitionMs = 90 * 24 * 60 * minuteMs;

const Body = Type.Object(
  {
    key_transition_period_ms: Type.Optional(
      Type.Integer({
        minimum: 30 * minuteMs,
        maximum: longestTransitionMs,
        description:
          'For how long the present secret is taken as well, in milliseconds: 30 minutes (the default) to 90 days.',
      }),
    ),
  },
  strict,
);

/** `POST /api-keys/{id}/rotate`: a new secret; the one before is taken for a while longer. */
export function rotateApiKeyRoute({ clock, keyPrefix }: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.rotate',
    method: 'POST',
    path: '/api-keys/{id}/rotate',
    summary: 'Gives a key a new secret; the one before is taken for a while longer',
    scope: keyScopes('rotate'),
    audit: 'rotate',
    params: Type.Object({ id: Identifier }),
    body: Body,
    reply: Type.Object({
      id: Type.String(),
      key: Type.String({ description: 'The new secret. It is shown now and never again.' }),
      key_transition_expires_at: Type.String({ description: 'Until when the secret before is taken.' }),
    }),
    examples: {
      request: { key_transition_period_ms: 60 * minuteMs },
      response: {
        id: apiKeyExample.id,
        key: secretExample,
        key_transition_expires_at: '2026-11-21T10:00:00.000Z',
      },
    },
    async handle({ params, body, key, role, write, requireVersion }) {
      const now = clock.now();
      const secret = newSecret(keyPrefix);
      const until = now + (body.key_transition_period_ms ?? defaultTransitionMs);
      await write(async (writer) => {
        const before = await visibleKey(writer, { key, role }, params.id, 'rotate');
        requireVersion(before.version);
        // Whoever rotates a key holds its secret, and with it its scopes.
        readScopes(key, before.type, before.scopes);
        await requireNotAbove(writer, { key, role }, before);
        const [present, ...others] = before.secrets.filter(
          ({ expiresAt }) => expiresAt === undefined || expiresAt > now,
        );
        if (others.length > 0) {
          throw new GatewayError(
            'resource_conflict',
            'The key is being rotated already: two of its secrets are taken. Wait until the older one ends (key_transition_expires_at).',
          );
        }
        const isReplaced = await writer.apiKeys.replace({
          ...before,
          masked: secret.masked,
          secrets: [
            { hash: secret.hash, expiresAt: undefined },
            ...(present === undefined ? [] : [{ hash: present.hash, expiresAt: until }]),
          ],
          ...{ updatedAt: now, version: before.version + 1 },
        });
        if (!isReplaced) throw staleVersion();
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return { id: params.id, key: secret.text, key_transition_expires_at: new Date(until).toISOString() };
    },
  });
}
