import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Role } from '../../../core/access/scopes.ts';
import type { OrganisationRole, WorkspaceRole } from '../../../core/ports/people.ts';
import type { ResourcesWriter } from '../../../core/ports/resources.ts';
import { testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { groupMappingRoutes } from './group-mappings.ts';
import { memberRoutes } from '../workspaces/members.ts';
import { userRoutes } from './routes.ts';

/** Which roles each role gives, changes and takes away. */
const granted: Readonly<Record<Role, readonly Role[]>> = {
  owner: ['owner', 'admin', 'manager', 'member'],
  admin: ['admin', 'manager', 'member'],
  manager: ['manager', 'member'],
  member: [],
};
const actors = Object.keys(granted) as Role[];

const { scope } = testScope();
const routes = [...userRoutes(scope), ...memberRoutes(scope), ...groupMappingRoutes(scope)];

/** A store in which everybody and everything there is has the role `has`, and that takes every change. */
function storeOf(has: OrganisationRole | WorkspaceRole, inOrganisation = has) {
  const changed: string[] = [];
  const change = (name: string, result: unknown) => () => {
    changed.push(name);
    return Promise.resolve(result);
  };
  const user = { id: 'u', organisationId: 'org-1', role: has, version: 1, createdAt: 0, updatedAt: 0 };
  const member = { ...user, workspaceId: 'ws-1', userId: 'u' };
  const person = { ...user, role: inOrganisation };
  const others = { total: 2, data: [] };
  const writer = {
    users: {
      find: () => Promise.resolve(person),
      list: () => Promise.resolve(others),
      workspaceIds: () => Promise.resolve(new Map()),
      replace: change('change', true),
      remove: change('remove', true),
    },
    workspaces: { find: () => Promise.resolve({ id: 'ws-1', organisationId: 'org-1', status: 'active' }) },
    members: {
      find: () => Promise.resolve({ member, user: person }),
      insert: change('insert', undefined),
      replace: change('change', true),
      remove: change('remove', true),
    },
    groupMappings: {
      find: () => Promise.resolve(member),
      insert: change('insert', undefined),
      remove: change('remove', true),
    },
    apiKeys: { removeOfUser: () => Promise.resolve(0) },
    records: { list: () => Promise.resolve({ total: 0, data: [] }) },
  } as unknown as ResourcesWriter;
  return { changed, writer };
}

/** Calls a route as somebody in the role `actor`; what it changed, or `refused`. */
async function outcomeOf(
  id: string,
  actor: Role,
  has: OrganisationRole | WorkspaceRole,
  body: object,
  inOrganisation = has,
) {
  const route = routes.find((one) => one.id === id);
  assert.ok(route, id);
  const { changed, writer } = storeOf(has, inOrganisation);
  const handled = route.handle(
    testRouteInput({
      role: actor,
      body,
      params: { workspaceId: 'ws-1', userId: 'u', scimWorkspaceGroupId: 'm' },
      write: async (work) => (await work(writer)).result,
      requireVersion() {},
      sendVersion() {},
    }),
  );
  try {
    await handled;
    return changed.join();
  } catch (error) {
    assert.equal(Reflect.get(Object(error), 'code'), 'scope_missing', String(error));
    assert.deepEqual(changed, []);
    return 'refused';
  }
}

describe('nobody reaches above themselves', () => {
  const organisationRoles = ['owner', 'admin', 'member'] as const;
  const workspaceRoles = ['manager', 'member'] as const;
  const expected = (actor: Role, roles: readonly Role[], done: string): string =>
    roles.every((role) => granted[actor].includes(role)) ? done : 'refused';

  for (const actor of actors) {
    test(`as ${actor}: people of the organisation`, async () => {
      for (const has of organisationRoles) {
        const place = `${actor} meets ${has}`;
        assert.equal(
          await outcomeOf('users.delete', actor, has, {}),
          expected(actor, [has], 'remove'),
          place,
        );
        assert.equal(
          await outcomeOf('users.update', actor, has, {}),
          expected(actor, [has], 'change'),
          place,
        );
        for (const role of ['admin', 'member'] as const) {
          const outcome = await outcomeOf('users.update', actor, has, { role });
          assert.equal(outcome, expected(actor, [has, role], 'change'), `${place}, makes ${role}`);
        }
      }
    });

    test(`as ${actor}: members of a workspace, and groups`, async () => {
      for (const suffix of ['', '_plain']) {
        for (const has of workspaceRoles) {
          const removed = await outcomeOf(`workspace_users.delete${suffix}`, actor, has, {});
          assert.equal(removed, expected(actor, [has], 'remove'));
          for (const role of [...workspaceRoles, 'admin'] as const) {
            const given = role === 'admin' ? 'manager' : role;
            const changed = await outcomeOf(`workspace_users.update${suffix}`, actor, has, { role });
            assert.equal(changed, expected(actor, [has, given], 'change'));
            const users = [{ id: 'u', role }];
            const added = await outcomeOf(`workspace_users.create${suffix}`, actor, 'member', { users });
            assert.equal(added, expected(actor, [given], 'insert'));
          }
          for (const above of organisationRoles) {
            const roles = [has, above];
            const place = `${actor} meets ${has}, who is ${above} of the organisation`;
            const gone = await outcomeOf(`workspace_users.delete${suffix}`, actor, has, {}, above);
            assert.equal(gone, expected(actor, roles, 'remove'), place);
            const made = await outcomeOf(`workspace_users.update${suffix}`, actor, has, { role: has }, above);
            assert.equal(made, expected(actor, roles, 'change'), place);
            const users = [{ id: 'u', role: has }];
            const came = await outcomeOf(`workspace_users.create${suffix}`, actor, has, { users }, above);
            assert.equal(came, expected(actor, roles, 'insert'), place);
          }
        }
      }
      for (const role of workspaceRoles) {
        const group = { workspace_id: 'ws-1', role, scim_group: 'a' };
        const said = await outcomeOf('scim_workspaces.create', actor, 'member', group);
        assert.equal(said, expected(actor, [role], 'insert'));
        const forgotten = await outcomeOf('scim_workspaces.delete', actor, role, {});
        assert.equal(forgotten, expected(actor, [role], 'remove'));
      }
    });
  }
});
