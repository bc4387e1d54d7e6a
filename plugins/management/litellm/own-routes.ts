import type { JsonObject } from '../../../core/base/json.ts';
import { isJsonObject } from '../../../core/base/json.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import { apiKeyRoutes } from '../api-keys/routes.ts';
import { usageLimitPolicyRoutes } from '../policies/usage-limits.ts';
import { workspaceRoutes } from '../workspaces/routes.ts';

type Input = RouteInput<unknown, unknown, unknown>;
type Parts = Partial<Pick<Input, 'params' | 'query' | 'body'>>;

/** Upper bound of the pages that `find` reads. */
const mostPages = 100;

/** The routes of the administration API that do the work of LiteLLM's paths. */
export class OwnRoutes {
  readonly #routes: ReadonlyMap<string, RouteDefinition>;

  constructor(scope: Scope) {
    const routes = [...apiKeyRoutes(scope), ...workspaceRoutes(scope), ...usageLimitPolicyRoutes(scope)];
    this.#routes = new Map(routes.map((route) => [route.id, route]));
  }

  /** Scope that the route needs. */
  scopeOf(id: string): RouteDefinition['scope'] {
    return this.#route(id).scope;
  }

  /** Calls the route as the caller of `input`. */
  async run(id: string, input: Input, parts: Parts): Promise<JsonObject> {
    const { key, role, context, read, write, requireVersion, sendVersion } = input;
    const shared = { key, role, context, read, write, requireVersion, sendVersion };
    const answer: unknown = await this.#route(id).handle({
      ...{ params: {}, query: {}, body: {} },
      ...parts,
      ...shared,
    });
    return isJsonObject(answer) ? answer : {};
  }

  /** Records of a list route. */
  async list(id: string, input: Input, query: JsonObject): Promise<readonly JsonObject[]> {
    return recordsIn(await this.run(id, input, { query }));
  }

  /** Records of all pages of a list route, for which `isWanted` holds: of the first 10,000. */
  async find(
    id: string,
    input: Input,
    isWanted: (record: JsonObject) => boolean,
  ): Promise<readonly JsonObject[]> {
    const found: JsonObject[] = [];
    for (let page = 0; page < mostPages; page++) {
      const records = await this.list(id, input, { current_page: page, page_size: 100 });
      found.push(...records.filter(isWanted));
      if (records.length < 100) break;
    }
    return found;
  }

  #route(id: string): RouteDefinition {
    const found = this.#routes.get(id);
    if (found === undefined) throw new GatewayError('internal', `There is no route "${id}".`);
    return found;
  }
}

/** Id of a record as answers show it. */
export function idIn({ id }: JsonObject): string {
  return typeof id === 'string' ? id : '';
}

/** Records of the answer of a list route. */
export function recordsIn({ data }: JsonObject): readonly JsonObject[] {
  return Array.isArray(data) ? data.filter(isJsonObject) : [];
}
