/** What a route is called about, with names of what is planted for it. */
import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/http/define-route.ts';
import type { ApiKeyRecord, Resources } from '../../core/ports/resources.ts';
import type { AdminCall } from '../kit/administration-kit.ts';
import type { Actor, Asked } from './matrix-model.ts';
import { personOf, plantTarget, type Person, type Place } from './planted-places.ts';
import { plausibleBody } from './plausible-body.ts';

/** Who calls, about what. */
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
export interface AimedCall extends Asked {
  readonly request: AdminCall;
}

/** Routes whose records these tests do not plant: whoever may ask is told that there is nothing. */
const nothingThere =
  /^(logs\.get|feedback\.update|model_pricing\.get|configs\.(get|update|delete|versions))$/;

/** What routes need to be asked. */
const queries: Readonly<Record<string, string>> = { 'cache.delete': '?all=true' };

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
    const { path, target, ...named } = await this.fill(route, one);
    const scopes = scopesFor(route, one);
    const body = await this.bodyFor(route, { ...one, scopes }, named);
    const query = queries[route.id] ?? '';
    return { request: { method: route.method, path: path + query, body }, scopes, target };
  }

  private async fill(route: RouteDefinition, one: Try) {
    const place = this.places[one.target];
    let target: Asked['target'];
    let workspace = place?.workspace ?? randomUUID();
    let user: string | undefined;
    let { path } = route;
    for (const [pattern, parameter = ''] of route.path.matchAll(/\{(\w+)\}/g)) {
      if (parameter === 'groupBy') {
        path = path.replace(pattern, 'model');
        continue;
      }
      const within = route.path.includes('{workspaceId}') ? workspace : '';
      const wanted = { parameter, keyType: one.keyType, workspace: within };
      const found =
        place === undefined || nothingThere.test(route.id)
          ? undefined
          : route.method === 'GET' && parameter === 'workspaceId'
            ? { id: place.workspace, belongs: place }
            : await plantTarget(this.resources, place, wanted);
      const id = found?.id ?? randomUUID();
      if (parameter === 'workspaceId') workspace = id;
      if (parameter === 'userId') user = id;
      target = found?.belongs ?? 'nowhere';
      this.sent.add(id);
      path = path.replace(pattern, id);
    }
    return { path, workspace, user, target };
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
    const { organisation = '' } = this.places[one.home] ?? {};
    return plausibleBody(route.body, {
      ...{ workspace, user, stranger, organisation },
      scopes: one.scopes.slice(0, 1),
    });
  }
}

/** Of a key, the scope for its type, of a new integration that for a workspace; else any one that the route names. */
function scopesFor({ method, path, scope }: RouteDefinition, { keyType }: Try): readonly string[] {
  const wanted = typeof scope === 'string' ? [scope] : scope;
  // The bodies of these tests always name a workspace.
  if (path === '/integrations' && method === 'POST')
    return wanted.filter((one) => one.startsWith('workspace_'));
  if (!path.startsWith('/api-keys/{id}')) return wanted;
  return wanted.filter((one) => one.startsWith(`${keyType.replaceAll('-', '_')}_api_keys.`));
}
