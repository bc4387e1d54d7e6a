/** What a route is called about, with names of what is planted for it. */
import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import type { ApiKeyRecord, Resources } from '../../core/ports/resources.ts';
import type { AdminCall } from '../kit/administration-kit.ts';
import type { Actor, Asked } from './matrix-model.ts';
import { personOf, plantRecord, plantTarget, recordOf, type Person, type Place } from './planted-places.ts';
import { recordKindOf, recordKinds, modelOf, versionIdOf } from '../kit/planted-records.ts';
import { plausibleBody } from './plausible-body.ts';

/** The caller and the subject. */
export interface Try {
  readonly isKnown: boolean;
  readonly kind: Actor['kind'];
  readonly person: Person | undefined;
  readonly isToken: boolean;
  /** The place of the caller. */
  readonly home: number;
  readonly scopes: readonly string[];
  /** The place of what the path or the body names; 3 for something that there is not. */
  readonly target: number;
  readonly keyType: ApiKeyRecord['type'];
}

/** A call, and what it is about. */
interface AimedCall extends Asked {
  readonly request: AdminCall;
}

/** Routes about what the store of records does not have: whoever may ask is told that there is nothing. */
const nothingThere = /^(logs\.get|traces\.get|feedback\.update|model_pricing\.get)$/;

/** Parameters of paths that name no record. */
const plainNames: Readonly<Record<string, string>> = { groupBy: 'model', metadataKey: 'team' };

/** A parameter of a path. */
interface WantedName {
  readonly parameter: string;
  readonly keyType: ApiKeyRecord['type'];
  /** Of members: the workspace that the path names. */
  readonly workspace: string;
  /** Id of the record that the path has named before. */
  readonly record: string | undefined;
}

/** What routes need to be asked about the record that their path names. */
const queries: Readonly<Record<string, (id: string) => string>> = {
  'cache.delete': () => '?all=true',
  'integration_models.delete': (id) => `?slugs=${modelOf(id)}`,
};

/** Routes that are about records of organisations alone. */
const ofOrganisations = /integration_workspaces\.update$/;

/** Fills in the paths and bodies of calls. */
export class AimedCalls {
  /** Every name that callers have sent themselves: refusals and the audit trail repeat them. */
  readonly sent = new Set<string>();
  private readonly resources: Resources;
  private readonly places: readonly Place[];

  constructor(resources: Resources, places: readonly Place[]) {
    this.resources = resources;
    this.places = places;
  }

  /** The call of this route that the try means. */
  async aim(route: RouteDefinition, one: Try): Promise<AimedCall> {
    const { path, target, record, ...named } = await this.fill(route, one);
    const scopes = scopesFor(route, one, target);
    const body = await this.bodyFor(route, { ...one, scopes }, named);
    const query = queries[route.id]?.(record) ?? '';
    // A route that reads what was sent by itself has no schema of it.
    const own =
      route.id === 'otel.traces'
        ? { headers: { 'content-type': 'application/json' }, body: { resourceSpans: [] } }
        : { body };
    const request = { method: route.method, path: path + query, ...own };
    const isForOwners = route.id.startsWith('config_file.');
    return { request, scopes, target, isChange: route.audit !== null, isForOwners };
  }

  private async fill(route: RouteDefinition, one: Try) {
    const place = this.places[one.target];
    let target: Asked['target'];
    let workspace = place?.workspace ?? randomUUID();
    let user: string | undefined;
    let { path } = route;
    const kind = recordKindOf(route.id);
    let record: string | undefined;
    for (const [pattern, parameter = ''] of route.path.matchAll(/\{(\w+)\}/g)) {
      const plain = plainNames[parameter];
      if (plain !== undefined) {
        path = path.replace(pattern, plain);
        continue;
      }
      const within = route.path.includes('{workspaceId}') ? workspace : '';
      const wanted = { parameter, keyType: one.keyType, workspace: within };
      const found =
        place === undefined || nothingThere.test(route.id)
          ? undefined
          : await this.named(route, place, { ...wanted, record });
      const id = found?.id ?? randomUUID();
      if (parameter === 'workspaceId') workspace = id;
      if (parameter === 'userId') user = id;
      // What stands below a record is where the record is.
      if (record === undefined) target = found?.belongs ?? 'nowhere';
      if (kind !== undefined) record ??= id;
      this.sent.add(id);
      path = path.replace(pattern, id);
    }
    return { path, workspace, user, target, record: record ?? '' };
  }

  private named(route: RouteDefinition, place: Place, wanted: WantedName) {
    const { parameter, record } = wanted;
    const kind = recordKindOf(route.id);
    if (kind !== undefined && record === undefined) {
      const ofOrganisation = ofOrganisations.test(route.id) || wanted.keyType === 'organisation-service';
      return plantRecord(this.resources, place, { kind, ofOrganisation });
    }
    if (parameter === 'versionId' && record !== undefined) return { id: versionIdOf(record), belongs: place };
    if (route.method === 'GET' && parameter === 'workspaceId') return { id: place.workspace, belongs: place };
    return plantTarget(this.resources, place, wanted);
  }

  /** A body may say again what the path says, and nothing else. */
  private async bodyFor(
    route: RouteDefinition,
    one: Try,
    { workspace, user: named }: { readonly workspace: string; readonly user: string | undefined },
  ): Promise<unknown> {
    const place = this.places[one.target] ?? this.places[0];
    if (route.body === undefined || place === undefined) return undefined;
    const unnamed = { parameter: 'userId', keyType: one.keyType, workspace: '' };
    const stranger = (await plantTarget(this.resources, place, unnamed))?.id ?? '';
    const user = named ?? personOf(place, 'member');
    for (const id of [workspace, stranger, user]) this.sent.add(id);
    for (const kind of recordKinds) this.sent.add(recordOf(place, kind));
    const { organisation = '' } = this.places[one.home] ?? {};
    return plausibleBody(route.body, {
      workspace,
      user,
      stranger,
      organisation,
      record: (kind) => recordOf(place, kind),
      scopes: one.scopes.slice(0, 1),
    });
  }
}

/** The rights that let somebody do this to the target: any one of these. */
function scopesFor(
  { method, path, scope, audit }: RouteDefinition,
  { keyType }: Try,
  target: Asked['target'],
): readonly string[] {
  const wanted = typeof scope === 'string' ? [scope] : scope;
  const startingWith = (start: string) => wanted.filter((one) => one.startsWith(start));
  if (path.startsWith('/api-keys/{id}')) return startingWith(`${keyType.replaceAll('-', '_')}_api_keys.`);
  const isShared = typeof target === 'object' && target.workspace === '';
  // The bodies of these tests always name a workspace.
  const ofWorkspace = startingWith('workspace_');
  if (path.includes('integrations') && ofWorkspace.length > 0 && (target !== undefined || method === 'POST'))
    return isShared ? startingWith('organisation_') : ofWorkspace;
  // Guardrails of the organisation hold in its workspaces, so these see them.
  if (path.startsWith('/guardrails/') && isShared && audit !== null) return startingWith('organisation_');
  return wanted;
}
