import { Type } from 'typebox';
import type { McpVirtualServerData } from '../ports/record-kinds.ts';
import { strict } from './fields.ts';

const slug = '^[a-zA-Z0-9_-]{1,50}$';

const ChosenTool = Type.Object(
  {
    server: Type.String({ pattern: slug, description: 'Slug of the server that has the tool.' }),
    tool: Type.String({ minLength: 1, maxLength: 128, description: 'Its name there.' }),
    name: Type.Optional(
      Type.String({
        pattern: '^[a-zA-Z0-9_.-]{1,128}$',
        description: 'Its name for clients. Default: the same.',
      }),
    ),
    description: Type.Optional(
      Type.String({ minLength: 1, maxLength: 4096, description: 'Replaces the description of the server.' }),
    ),
  },
  strict,
);

/** Parts of a virtual server in the YAML and in the API: what it is made of, and what it tells models. */
export const virtualServerFields = {
  servers: Type.Array(Type.String({ pattern: slug }), {
    maxItems: 100,
    description:
      'Slugs of the servers, of the options or of the administration API. Default: those of `tools`.',
  }),
  tools: Type.Array(ChosenTool, {
    maxItems: 1000,
    description: 'The tools. Default: all of the servers, each under the slug of its server.',
  }),
  mode: Type.Union([Type.Literal('list'), Type.Literal('search')], {
    description:
      '`list` (default): all tools. `search`: two tools, one that finds the others and one that calls them.',
  }),
  instructions: Type.String({
    minLength: 1,
    maxLength: 8192,
    description: 'For the model, in the handshake.',
  }),
};

/** Parts of a virtual server, in the YAML or in a record. */
type VirtualParts = Partial<Pick<McpVirtualServerData, 'servers' | 'tools'>>;

/** Every mistake in the parts of a virtual server that its schema cannot find: a pointer below it, and the end of a sentence. */
export function virtualServerMistakes({
  servers = [],
  tools = [],
}: VirtualParts): readonly { readonly path: string; readonly message: string }[] {
  if (servers.length === 0 && tools.length === 0)
    return [{ path: '/tools', message: 'is missing, and so is servers; name at least one tool or server' }];
  const known = new Map<string, number>();
  const mistakes: { readonly path: string; readonly message: string }[] = [];
  for (const [index, { server, tool, name }] of tools.entries()) {
    const shown = name ?? tool;
    const before = known.get(shown);
    if (before !== undefined)
      mistakes.push({
        path: `/tools/${index}/${name === undefined ? 'tool' : 'name'}`,
        message: `is called "${shown.slice(0, 64)}" as /tools/${before} is; give one of them another name`,
      });
    known.set(shown, index);
    if (servers.length > 0 && !servers.includes(server))
      mistakes.push({
        path: `/tools/${index}/server`,
        message: `is "${server}", which servers does not name; add it there, or leave servers out`,
      });
  }
  return mistakes;
}

/** An MCP server of the configuration. */
interface ConfiguredMcpServer {
  readonly slug: string;
  readonly isVirtual: boolean;
  /** Ids or slugs of the workspaces that may use it; undefined: all. */
  readonly workspaces: readonly string[] | undefined;
}

/** The MCP servers of the configuration, as far as this process serves them: records may name them. */
export class ConfiguredMcpServers {
  readonly #served = new Set<readonly ConfiguredMcpServer[]>();

  /** Adds those that a plugin serves; the returned function takes them back. */
  add(servers: readonly ConfiguredMcpServer[]): () => void {
    this.#served.add(servers);
    return () => void this.#served.delete(servers);
  }

  /** Those that the workspace may use; undefined while this process serves no MCP, so that it knows of none. */
  of(workspace: { readonly id: string; readonly slug: string }): readonly ConfiguredMcpServer[] | undefined {
    if (this.#served.size === 0) return undefined;
    return [...this.#served]
      .flat()
      .filter(
        ({ workspaces }) =>
          workspaces === undefined ||
          workspaces.includes(workspace.id) ||
          workspaces.includes(workspace.slug),
      );
  }
}
