/** Two organisations with three workspaces, everything in them marked so that it is recognised wherever it turns up. */
import { randomUUID } from 'node:crypto';
import type { Directory } from '../../core/ports/directory.ts';
import type { OrganisationRole } from '../../core/ports/people.ts';
import type { RecordKind } from '../../core/ports/records.ts';
import type { ApiKeyRecord, Resources, ResourcesWriter } from '../../core/ports/resources.ts';
import { testStart } from '../kit/plugin-kit.ts';
import type { Actor, Belonging } from './matrix-model.ts';
import { homeOf, insertRecord, recordKinds } from '../kit/planted-records.ts';

/** A workspace with its people, keys, invites, mappings and records. Every id, name, address and hash in it holds its marker. */
export interface Place extends Belonging {
  readonly marker: string;
  /** What marks the records of its organisation that belong to no workspace. */
  readonly organisationMarker: string;
}

export type Person = NonNullable<Actor['person']>;

const people: readonly Person[] = ['owner', 'admin', 'manager', 'member'];
const times = { createdAt: testStart, updatedAt: testStart, version: 1 };

/** The id of somebody who is planted in every place. */
export function personOf(place: Place, person: Person): string {
  return `${place.marker}-${person}`;
}

/** The id of the record of a kind that is planted in every place, or in its organisation. */
export function recordOf(place: Place, kind: RecordKind): string {
  return `${homeOf(kind) === 'organisation' ? place.organisationMarker : place.marker}-${kind}`;
}

/** Two places in one organisation and one in another. */
export async function plantPlaces(resources: Resources): Promise<readonly Place[]> {
  const places: Place[] = [];
  for (const [organisation, workspaces] of [
    [newMarker('org'), 2],
    [newMarker('org'), 1],
  ] as const) {
    for (let count = 0; count < workspaces; count++) {
      const marker = newMarker('place');
      places.push({
        organisation,
        workspace: `${marker}-ws`,
        marker,
        organisationMarker: `${organisation}-own`,
      });
    }
  }
  for (const place of places) await plantPlace(resources, place);
  return places;
}

/** What the request path knows of the places. */
export function directoryOf(places: readonly Place[]): Partial<Directory> {
  const persons = new Map(
    places.flatMap((place) => people.map((person) => [personOf(place, person), { place, person }] as const)),
  );
  return {
    user(organisationId, id) {
      const found = persons.get(id);
      if (found === undefined || found.place.organisation !== organisationId) return undefined;
      return { id, role: organisationRole(found.person) };
    },
    memberRole(workspaceId, userId) {
      const found = persons.get(userId);
      if (found === undefined || found.place.workspace !== workspaceId) return undefined;
      return found.person === 'manager' || found.person === 'member' ? found.person : undefined;
    },
    workspaceId: (organisationId, named) =>
      places.find(
        ({ organisation, workspace, marker }) =>
          organisation === organisationId && (workspace === named || `ws-${marker}` === named),
      )?.workspace,
  };
}

/** A new record of the kind that a path parameter names, with what it belongs to; undefined for other parameters. */
export async function plantTarget(
  resources: Resources,
  place: Place,
  wanted: { readonly parameter: string; readonly keyType: ApiKeyRecord['type']; readonly workspace: string },
): Promise<{ readonly id: string; readonly belongs: Belonging } | undefined> {
  const { organisation, marker } = place;
  const plant = plants[wanted.parameter];
  if (plant === undefined) return undefined;
  const id = `${marker}-${randomUUID()}`;
  const belongs = await resources.write(organisation, (writer) => plant(writer, { place, id, ...wanted }));
  return { id, belongs };
}

/** A new record of this kind, of the organisation where `ofOrganisation` says so and there can be one. */
export async function plantRecord(
  resources: Resources,
  place: Place,
  { kind, ofOrganisation }: { readonly kind: RecordKind; readonly ofOrganisation: boolean },
): Promise<{ readonly id: string; readonly belongs: Belonging }> {
  const home = homeOf(kind);
  const isShared = home === 'organisation' || (home === 'either' && ofOrganisation);
  const { organisation, organisationMarker, marker } = place;
  const workspace = isShared ? undefined : place.workspace;
  // Messages name what was asked for with its first 64 characters.
  const id = `${isShared ? organisationMarker : marker}-${randomUUID().slice(0, 18)}`;
  await resources.write(organisation, (writer) =>
    insertRecord(writer, { kind, organisation, workspace, id }),
  );
  return { id, belongs: { organisation, workspace: workspace ?? '' } };
}

interface Planting {
  readonly place: Place;
  readonly id: string;
  readonly keyType: ApiKeyRecord['type'];
  /** Of members: the workspace that the path names. */
  readonly workspace: string;
}

const plants: Readonly<Record<string, (writer: ResourcesWriter, planting: Planting) => Promise<Belonging>>> =
  {
    async workspaceId(writer, { place: { organisation }, id }) {
      await insertWorkspace(writer, { organisation, id, slug: `ws-${id}` });
      return { organisation, workspace: id };
    },
    async userId(writer, { place: { organisation }, id, workspace }) {
      await insertUser(writer, { organisation, id, role: 'member' });
      if (workspace === '') return { organisation, workspace };
      await insertMember(writer, { organisation, workspace, userId: id, role: 'member' });
      return { organisation, workspace };
    },
    async inviteId(writer, { place: { organisation, workspace }, id }) {
      await insertInvite(writer, { organisation, id, workspace });
      return { organisation, workspace: '' };
    },
    async scimWorkspaceGroupId(writer, { place: { organisation, workspace }, id }) {
      const group = { groupId: `${id}-group`, groupName: '' };
      await writer.groupMappings.insert({
        id,
        organisationId: organisation,
        workspaceId: workspace,
        role: 'member',
        ...group,
        createdAt: testStart,
      });
      return { organisation, workspace };
    },
    async entityId(writer, { place: { organisation, workspace }, id }) {
      await insertKey(writer, { organisation, workspace, id, type: 'workspace-service', user: '' });
      return { organisation, workspace };
    },
    async id(writer, { place, id, keyType }) {
      const { organisation } = place;
      const workspace = keyType === 'organisation-service' ? undefined : place.workspace;
      const user = keyType === 'workspace-user' ? personOf(place, 'member') : '';
      await insertKey(writer, { organisation, workspace, id, type: keyType, user });
      // No workspace's key sees those of the organisation.
      return { organisation, workspace: workspace ?? organisation, user };
    },
  };

async function plantPlace(resources: Resources, place: Place): Promise<void> {
  const { organisation, workspace, marker, organisationMarker } = place;
  await resources.write(organisation, async (writer) => {
    await writer.organisations.ensure({ id: organisation, name: organisation, createdAt: testStart });
    const isFirst = (await writer.users.find(organisation, `${organisationMarker}-user`)) === undefined;
    if (isFirst) {
      await insertUser(writer, { organisation, id: `${organisationMarker}-user`, role: 'member' });
      const type = 'organisation-service';
      const id = `${organisationMarker}-key`;
      await insertKey(writer, { organisation, workspace: undefined, id, type, user: '' });
      for (const kind of recordKinds) {
        const owner = { kind, organisation, workspace: undefined };
        if (homeOf(kind) !== 'workspace')
          await insertRecord(writer, { ...owner, id: `${organisationMarker}-${kind}` });
      }
    }
    await insertWorkspace(writer, { organisation, id: workspace, slug: `ws-${marker}` });
    for (const person of people) {
      const id = personOf(place, person);
      await insertUser(writer, { organisation, id, role: organisationRole(person) });
      if (person === 'manager' || person === 'member')
        await insertMember(writer, { organisation, workspace, userId: id, role: person });
    }
    for (const type of ['workspace-service', 'workspace-user'] as const)
      await insertKey(writer, { organisation, workspace, id: `${marker}-${type}`, type, user: '' });
    await insertInvite(writer, { organisation, id: `${marker}-invite`, workspace });
    for (const kind of recordKinds) {
      if (homeOf(kind) !== 'organisation')
        await insertRecord(writer, { kind, organisation, workspace, id: `${marker}-${kind}` });
    }
  });
}

function organisationRole(person: Person): OrganisationRole {
  return person === 'manager' ? 'member' : person;
}

/** Letters that are found nowhere else, and that ids, slugs and addresses may have. */
function newMarker(name: string): string {
  return `canary-${name}-${randomUUID().slice(0, 13)}`;
}

async function insertWorkspace(
  { workspaces }: Pick<ResourcesWriter, 'workspaces'>,
  { organisation, id, slug }: { readonly organisation: string; readonly id: string; readonly slug: string },
): Promise<void> {
  await workspaces.insert({
    id,
    organisationId: organisation,
    slug,
    name: `${id} name`,
    description: `${id} description`,
    icon: '',
    status: 'active',
    isDefault: false,
    defaults: {},
    usageLimits: [],
    rateLimits: [],
    ...times,
  });
}

async function insertUser(
  { users }: Pick<ResourcesWriter, 'users'>,
  {
    organisation,
    id,
    role,
  }: { readonly organisation: string; readonly id: string; readonly role: OrganisationRole },
): Promise<void> {
  const names = { firstName: `${id} first`, lastName: `${id} last` };
  await users.insert({
    id,
    organisationId: organisation,
    email: `${id}@example.com`,
    ...names,
    role,
    ...times,
  });
}

async function insertMember(
  { members }: Pick<ResourcesWriter, 'members'>,
  {
    organisation: organisationId,
    workspace: workspaceId,
    ...member
  }: Belonging & { readonly userId: string; readonly role: 'manager' | 'member' },
): Promise<void> {
  await members.insert({ organisationId, workspaceId, ...member, ...times });
}

async function insertInvite(
  { invites }: Pick<ResourcesWriter, 'invites'>,
  { organisation, id, workspace }: Belonging & { readonly id: string },
): Promise<void> {
  await invites.insert({
    id,
    organisationId: organisation,
    email: `${id}@example.com`,
    role: 'member',
    workspaces: [{ id: workspace, role: 'member' }],
    keyScopes: [],
    status: 'pending',
    tokenHash: `${id}-token`,
    invitedBy: `${id}-host`,
    expiresAt: Date.now() + 86_400_000,
    acceptedAt: undefined,
    ...times,
  });
}

interface PlantedKey {
  readonly organisation: string;
  readonly workspace: string | undefined;
  readonly id: string;
  readonly type: ApiKeyRecord['type'];
  readonly user: string;
}

async function insertKey(
  { apiKeys }: Pick<ResourcesWriter, 'apiKeys'>,
  { organisation, workspace, id, type, user }: PlantedKey,
): Promise<void> {
  await apiKeys.insert({
    id,
    organisationId: organisation,
    workspaceId: workspace,
    type,
    status: 'active',
    userId: user,
    name: `${id} name`,
    description: id,
    scopes: [],
    rateLimits: [],
    usageLimits: undefined,
    defaults: {},
    alertEmails: [],
    masked: `${id.slice(0, 20)}…`,
    secrets: [{ hash: `${id}-hash`, expiresAt: undefined }],
    creationMode: 'api',
    expiresAt: undefined,
    rotation: undefined,
    ...times,
  });
}
