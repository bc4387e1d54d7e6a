/** Bodies that a route should take: made of its schema, with names of what there is. */
import { randomUUID } from 'node:crypto';
import {
  requiredKeys,
  schemaMap,
  schemaObject,
  type SchemaObject,
} from '../../core/config/describe-schema.ts';
import { exampleOfSchema } from '../../core/http/openapi/document.ts';
import type { RecordKind } from '../../core/ports/records.ts';
import { plantedCapability, recordKinds } from '../kit/planted-records.ts';

/** What a body may name. */
interface Named {
  readonly organisation: string;
  readonly workspace: string;
  /** A member of the workspace. */
  readonly user: string;
  /** Somebody of the organisation who belongs to no workspace. */
  readonly stranger: string;
  readonly scopes: readonly string[];
  /** Id of a record of this kind that the workspace may use. */
  record(kind: RecordKind): string;
}

/** Members that bodies get even when they could do without: without them some callers could not be served. */
const alwaysSaid = ['workspace_id', 'organisation_id', 'user_id', 'name', 'scim_group', 'servers'];

/** Undefined for a route without a body. */
export function plausibleBody(schema: unknown, named: Named): unknown {
  if (schema === undefined) return undefined;
  return make(schemaObject(schema), '', named);
}

function make(schema: SchemaObject, name: string, named: Named): unknown {
  const known = byName(name, schema, named);
  if (known !== undefined) return known;
  const properties = schemaMap(schema, 'properties');
  if (properties.size > 0) {
    const required = requiredKeys(schema);
    const members = [...properties].filter(([key]) => required.includes(key) || alwaysSaid.includes(key));
    // Where nothing is required and something must be said, a switch says least.
    if (members.length === 0 && Number(schema['minProperties'] ?? 0) > 0) {
      const all = [...properties];
      members.push(
        ...[all.find(([, { type }]) => type === 'boolean') ?? all[0]].filter((one) => one !== undefined),
      );
    }
    return Object.fromEntries(members.map(([key, member]) => [key, make(member, key, named)]));
  }
  if (schema['type'] === 'array') return [make(schemaObject(schema['items']), `${name}[]`, named)];
  return exampleOfSchema(schema, name);
}

function byName(name: string, schema: SchemaObject, named: Named): unknown {
  if (name === 'workspace_id' || name === 'workspaceId') return named.workspace;
  if (name === 'user_id' || name === 'userId') return named.user;
  if (name === 'organisation_id') return named.organisation;
  if (name === 'users[]') return { id: named.stranger };
  if (name === 'workspaces[]' && !schemaMap(schema, 'properties').has('workspace_id'))
    return { id: named.workspace };
  if (name === 'capabilities[]') return { type: 'tool', name: plantedCapability, enabled: true };
  // Of the configuration: no plugin says here which there are.
  if (name === 'servers') return ['plausible'];
  if (name === 'scopes') return named.scopes;
  const kind = recordKinds.find((one) => name === `${one}_id`);
  if (kind !== undefined) return named.record(kind);
  if (name === 'role') return 'member';
  if (name === 'ai_provider_id' || name === 'provider') return 'mock';
  if (schema['format'] === 'email') return `${randomUUID()}@example.com`;
  if (schema['format'] === 'date-time') return '2099-01-01T00:00:00Z';
  if (schema['examples'] === undefined && /(^|_)(name|id|group)$/.test(name))
    return `plausible-${randomUUID()}`;
  return undefined;
}
