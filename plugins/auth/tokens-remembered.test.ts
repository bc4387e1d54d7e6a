import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forged, sign } from '../../adapters/tokens/issuer.test-support.ts';
import { callerKeyHeader, callerToken } from '../../core/pipeline/keys.ts';
import {
  base,
  bearer,
  guard,
  refusal,
  secret,
  service,
  stranger,
  tokenOf,
} from './token-guard.test-support.ts';

describe('a token that is remembered', () => {
  test('is taken at once, until it expires', async () => {
    const { request, counts, clock } = await guard();
    const headers = service(await tokenOf());
    assert.equal((await request(headers)).isSync, false);
    assert.equal((await request(headers)).isSync, true);
    clock.advance(3_604_999);
    assert.equal((await request(headers)).isSync, true);
    clock.advance(1);
    const error = await refusal(request(headers));
    assert.equal(error.code, 'token_invalid');
    assert.match(error.message, /expired at 2026-11-21T10:00:00\.000Z/);
    assert.equal(counts.verified, 1);
  });

  test('stands beside the key that was made of it, with its claims; a service key has none', async () => {
    const { request } = await guard();
    const token = await tokenOf({ groups: ['support'] });
    for (const headers of [service(token), bearer(token), service(token)]) {
      const { context } = await request(headers);
      const { text, claims, expiresAt } = context.get(callerToken) ?? {};
      assert.deepEqual([text, claims?.['groups'], expiresAt], [token, ['support'], (base.exp ?? 0) * 1000]);
    }
    assert.equal((await request(service(secret))).context.get(callerToken), undefined);
    // A token beside a service key is not what the caller came with.
    const both = await request({ ...service(secret), ...bearer(token) });
    assert.equal(both.context.get(callerToken), undefined);
  });

  test('is verified anew when the keys change', async () => {
    const { request, counts, state } = await guard();
    const headers = service(await tokenOf());
    await request(headers);
    state.version = 2;
    assert.equal((await request(headers)).isSync, false);
    assert.equal(counts.verified, 2);
  });

  test('is forgotten with the configuration that took it', async () => {
    const headers = service(await tokenOf());
    await (await guard()).request(headers);
    const error = await refusal((await guard({ jwt: { issuer: 'https://only.example' } })).request(headers));
    assert.match(error.message, /issued by "https:\/\/id\.example"/);
  });

  test('makes room for another one', async () => {
    const { request, counts } = await guard({ jwt: { cache_max: 2 } });
    const tokens = await Promise.all(['a', 'b', 'c'].map((sub) => tokenOf({ sub })));
    const [a = '', b = '', c = ''] = tokens;
    for (const token of [a, b, a, c, a]) await request(service(token));
    assert.equal(counts.verified, 3);
    await request(service(b));
    assert.equal(counts.verified, 4);
  });

  test('learns of a user who was made meanwhile, and of a workspace that has gone', async () => {
    const known = new Map<string, string>();
    const workspaces = new Map([['ws-lab', 'lab']]);
    const { request, clock, counts } = await guard({
      directory: {
        user: (_, named) => (known.has(named) ? { id: known.get(named) ?? '', role: 'member' } : undefined),
        workspaceId: (_, named) => workspaces.get(named),
      },
    });
    const headers = service(await tokenOf({ workspace_slug: 'ws-lab' }));
    assert.equal((await request(headers)).key?.userId, 'ada@example.com');
    known.set('ada@example.com', 'user-7');
    clock.advance(10_000);
    assert.equal((await request(headers)).key?.userId, 'user-7');
    workspaces.clear();
    clock.advance(10_000);
    assert.match((await refusal(request(headers))).message, /"ws-lab", which does not exist/);
    assert.equal(counts.verified, 1);
  });

  test('was refused: for two seconds without another look', async () => {
    const { request, counts, clock } = await guard();
    const headers = service(forged(await tokenOf()));
    const messages = [await refusal(request(headers)), await refusal(request(headers))];
    assert.equal(counts.verified, 1);
    assert.equal(messages[0]?.message, messages[1]?.message);
    clock.advance(2000);
    await refusal(request(headers));
    assert.equal(counts.verified, 2);
  });
});

describe('a token in the Authorization header, beside a service key', () => {
  test('that is ours never goes to a provider', async () => {
    const { request } = await guard();
    const ours = await tokenOf({ sub: 'second' });
    for (let count = 0; count < 2; count++) {
      const { context, key: found } = await request({ ...service(secret), ...bearer(ours) });
      assert.deepEqual([found?.id, context.get(callerKeyHeader)], ['key-1', 'authorization']);
    }
    const { context, key: found } = await request({ 'x-api-key': secret, ...bearer(ours) });
    assert.deepEqual([found?.id, context.get(callerKeyHeader)], ['key-1', 'authorization']);
  });

  test("that is a provider's own stays its own", async () => {
    const { request, counts } = await guard();
    const theirs = await sign(stranger, base);
    for (let count = 0; count < 3; count++) {
      const { context, key: found } = await request({ ...service(secret), ...bearer(theirs) });
      assert.deepEqual([found?.id, context.get(callerKeyHeader)], ['key-1', 'service']);
    }
    assert.deepEqual([counts.asked, counts.verified], [1, 0]);
    const both = await request({ ...service(await tokenOf()), ...bearer(theirs) });
    assert.deepEqual([both.key?.isToken, both.context.get(callerKeyHeader)], [true, 'service']);
    assert.equal((await refusal(request(bearer(theirs)))).code, 'token_invalid');
  });
});
