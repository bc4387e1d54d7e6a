import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import {
  openResourcesOfFile,
  startAdministration,
  type Administration,
  type TestTenant,
} from '../../../tests/kit/administration-kit.ts';
import type { Received } from '../../../tests/kit/http-kit.ts';
import { sha256 } from '../../../tests/kit/plugin-kit.ts';

const resources = await openResourcesOfFile();

const path = '/admin/users/invites';
const address = (): string => `${randomUUID()}@example.com`;

function tokenOf(answer: Received): string {
  assert.equal(answer.status, 200, answer.text);
  const { invite_link: link } = answer.json();
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/invite#wi_[\w-]{43}$/);
  return link.slice(link.indexOf('#') + 1);
}

function invite({ call }: Administration, { owner }: TestTenant, body: object): Promise<Received> {
  return call(owner, { path, body });
}

function accept({ call }: Administration, body: object): Promise<Received> {
  return call(undefined, { path: '/invites/accept', body });
}

/** Makes an invite end an hour ago. */
async function end({ organisationId }: TestTenant, id: string): Promise<void> {
  await resources.write(organisationId, async ({ invites }) => {
    const stored = await invites.find(organisationId, id);
    assert.ok(stored);
    const ended = { expiresAt: Date.now() - 3_600_000, version: stored.version + 1 };
    assert.ok(await invites.replace({ ...stored, ...ended }));
  });
}

describe('an invite', () => {
  test('makes a user, their memberships and a key in each workspace, once', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('join');
    const { owner, organisationId, workspaceId } = tenant;
    const email = address();
    const made = await invite(administration, tenant, {
      email: email.toUpperCase(),
      role: 'member',
      workspaces: [{ id: workspaceId, role: 'admin' }],
      workspace_api_key_details: { scopes: ['completions.write', 'logs:view'] },
    });
    const token = tokenOf(made);
    const { id } = made.json();
    const shown = (await administration.call(owner, { path: `${path}/${id}` })).json();
    assert.deepEqual(
      [shown.email, shown.role, shown.status, shown.workspaces, shown.workspace_api_key_details.scopes],
      [
        email,
        'member',
        'pending',
        [{ id: workspaceId, role: 'manager' }],
        ['completions.write', 'logs.view'],
      ],
    );

    const accepted = await accept(administration, { token, first_name: 'Ann', last_name: 'Lee' });
    assert.equal(accepted.status, 200, accepted.text);
    const { user, api_keys: keys } = accepted.json();
    assert.deepEqual(
      [user.email, user.first_name, user.last_name, user.role, user.workspace_ids],
      [email, 'Ann', 'Lee', 'member', [workspaceId]],
    );
    assert.deepEqual(
      keys.map((key: { workspace_id: string }) => key.workspace_id),
      [workspaceId],
    );
    const [key, member] = await resources.read(async (reader) => [
      await reader.apiKeys.find(organisationId, keys[0].id),
      await reader.members.find(organisationId, workspaceId, user.id),
    ]);
    assert.ok(key && 'secrets' in key && member && 'member' in member);
    assert.equal(key.secrets[0]?.hash, sha256(keys[0].key));
    assert.deepEqual(
      [key.type, key.userId, key.scopes],
      ['workspace-user', user.id, ['completions.write', 'logs.view']],
    );
    assert.equal(member.member.role, 'manager');

    const again = await accept(administration, { token });
    assert.equal(again.status, 401, again.text);
    assert.match(again.text, /accepted already: a link works once/);
    const after = (await administration.call(owner, { path: `${path}/${id}` })).json();
    assert.equal(after.status, 'accepted');
    assert.ok(after.accepted_at);
    const { records } = (
      await administration.call(owner, { path: '/audit-logs?resource_type=invites' })
    ).json();
    assert.deepEqual(
      records.map((row: { action: string }) => row.action),
      ['accept', 'create'],
    );
    assert.ok(!JSON.stringify(records).includes(token), 'the audit trail holds no token');
  });

  test('is accepted once by two at the same moment', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('race');
    const token = tokenOf(await invite(administration, tenant, { email: address(), role: 'admin' }));
    const answers = await Promise.all([accept(administration, { token }), accept(administration, { token })]);
    const statuses = answers.map(({ status }) => status).sort();
    assert.equal(statuses[0], 200);
    assert.ok(statuses[1] === 401 || statuses[1] === 412 || statuses[1] === 409, String(statuses[1]));
    const { total } = (await administration.call(tenant.owner, { path: '/admin/users' })).json();
    assert.equal(total, 1);
  });

  test('leads nowhere once cancelled, replaced by a newer link, or ended', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('ends');
    const { owner } = tenant;
    const first = await invite(administration, tenant, { email: address(), role: 'member' });
    const resent = await administration.call(owner, {
      method: 'POST',
      path: `${path}/${first.json().id}/resend`,
    });
    assert.equal(resent.json().inviteLink, resent.json().invite_link);
    const old = await accept(administration, { token: tokenOf(first) });
    assert.deepEqual([old.status, /not known here/.test(old.text)], [401, true], old.text);

    assert.equal(
      (await administration.call(owner, { method: 'DELETE', path: `${path}/${first.json().id}` })).status,
      200,
    );
    const cancelled = await accept(administration, { token: tokenOf(resent) });
    assert.deepEqual([cancelled.status, /was cancelled/.test(cancelled.text)], [401, true], cancelled.text);
    const late = await administration.call(owner, {
      method: 'POST',
      path: `${path}/${first.json().id}/resend`,
    });
    assert.equal(late.status, 409, late.text);

    const ending = await invite(administration, tenant, { email: address(), role: 'member' });
    await end(tenant, ending.json().id);
    const expired = await accept(administration, { token: tokenOf(ending) });
    assert.deepEqual([expired.status, /has expired/.test(expired.text)], [401, true], expired.text);
    assert.equal(
      (await administration.call(owner, { path: `${path}/${ending.json().id}` })).json().status,
      'expired',
    );
    const anew = await administration.call(owner, {
      method: 'POST',
      path: `${path}/${ending.json().id}/resend`,
    });
    assert.equal((await accept(administration, { token: tokenOf(anew) })).status, 200);
  });

  test('is listed by role, address and state', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('list');
    const email = address();
    await invite(administration, tenant, { email, role: 'admin' });
    await invite(administration, tenant, { email: address(), role: 'member' });
    const list = async (query: string): Promise<[number, number]> => {
      const { total, data } = (await administration.call(tenant.owner, { path: `${path}?${query}` })).json();
      return [total, data.length];
    };
    assert.deepEqual(await list(''), [2, 2]);
    assert.deepEqual(await list('pageSize=1&currentPage=1'), [2, 1]);
    assert.deepEqual(await list('role=admin'), [1, 1]);
    assert.deepEqual(await list(`email=${email.toUpperCase()}`), [1, 1]);
    assert.deepEqual(await list('status=accepted'), [0, 0]);
  });

  test('a workspace that was archived in between is left out', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('archived');
    const { owner, workspaceId } = tenant;
    const second = (
      await administration.call(owner, { path: '/workspaces', body: { name: 'second' } })
    ).json();
    const token = tokenOf(
      await invite(administration, tenant, {
        email: address(),
        role: 'member',
        workspaces: [{ id: workspaceId }, { id: second.slug }],
        workspace_api_key_details: { scopes: ['completions.write'] },
      }),
    );
    await administration.call(owner, { method: 'DELETE', path: `/workspaces/${second.id}` });
    const { user, api_keys: keys } = (await accept(administration, { token })).json();
    assert.deepEqual([user.workspace_ids, keys.length], [[workspaceId], 1]);
  });
});

describe('an invite is refused', () => {
  const bad: readonly [name: string, body: object, status: number, words: RegExp][] = [
    ['without an address', { role: 'member' }, 400, /email/],
    ['for what is no address', { email: 'nobody', role: 'member' }, 400, /\/email/],
    ['as an owner', { email: 'a@example.com', role: 'owner' }, 400, /\/role/],
    ['with an unknown field', { email: 'a@example.com', role: 'member', admin: true }, 400, /admin/],
    [
      'into a workspace that there is not',
      { email: 'a@example.com', role: 'member', workspaces: [{ id: 'ws-none', role: 'member' }] },
      400,
      /\/workspaces\/0\/id names/,
    ],
    [
      'with scopes that keys of people cannot hold',
      {
        email: 'a@example.com',
        role: 'member',
        workspace_api_key_details: { scopes: ['completions.write', 'organisation_users.create'] },
      },
      400,
      /\/workspace_api_key_details\/scopes\/1/,
    ],
  ];
  for (const [name, body, status, words] of bad) {
    test(name, async (t) => {
      const administration = await startAdministration(t, resources);
      const answer = await invite(administration, await administration.tenant('bad'), body);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, words);
    });
  }

  test('into a workspace of another organisation, as if there were none', async (t) => {
    const administration = await startAdministration(t, resources);
    const [tenant, other] = [await administration.tenant('here'), await administration.tenant('there')];
    const answer = await invite(administration, tenant, {
      email: address(),
      role: 'member',
      workspaces: [{ id: other.workspaceId }],
    });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.text, /has no such workspace/);
    const made = await invite(administration, tenant, { email: address(), role: 'member' });
    for (const [method, suffix] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/resend'],
    ] as const) {
      const seen = await administration.call(other.owner, {
        method,
        path: `${path}/${made.json().id}${suffix}`,
      });
      assert.equal(seen.status, 404, `${method} ${seen.text}`);
    }
  });

  test('for an address that is invited already, or belongs to the organisation', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('twice');
    const body = { email: address(), role: 'member' };
    const first = await invite(administration, tenant, body);
    assert.equal((await invite(administration, tenant, body)).status, 409);
    await accept(administration, { token: tokenOf(first) });
    const again = await invite(administration, tenant, body);
    assert.deepEqual([again.status, /belongs to the organisation already/.test(again.text)], [409, true]);
  });

  test('by keys of a workspace', async (t) => {
    const administration = await startAdministration(t, resources);
    const { key } = await administration.tenant('keys');
    for (const kind of ['workspace-service', 'workspace-user'] as const) {
      const actor = key({ kind, scopes: ['organisation_users.create', '*'] });
      const answer = await administration.call(actor, { path, body: { email: address(), role: 'member' } });
      assert.equal(answer.status, 403, answer.text);
    }
  });

  test('a token that is none is refused without a key, and a service key does not help', async (t) => {
    const administration = await startAdministration(t, resources);
    const { owner } = await administration.tenant('token');
    for (const caller of [undefined, owner]) {
      const answer = await administration.call(caller, {
        path: '/invites/accept',
        body: { token: 'wi_0123456789abcdef' },
      });
      assert.equal(answer.status, 401, answer.text);
      assert.match(answer.text, /not known here/);
    }
  });
});
