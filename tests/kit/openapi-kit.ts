import { compilePipeline } from '../../core/pipeline/compile.ts';
import type { PluginInstance } from '../../core/pipeline/call-hook.ts';
import type { AnyPlugin } from '../../core/pipeline/plugin.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { compilePipelines, type CompiledPipelines } from '../../core/http/route-table.ts';
import { builtInPlugins } from '../../plugins/index.ts';
import { testScope } from './plugin-kit.ts';
import { compileSchema } from '../../core/config/ajv.ts';
import type { Issue } from '../../core/config/issue.ts';
import { buildOpenApi } from '../../core/http/openapi/document.ts';
import type { OpenApiDocument } from '../../core/http/openapi/document-writer.ts';

/** A pipeline of plugins that are only created, not run. */
interface DescribedPipeline {
  readonly match: Parameters<typeof compilePipeline>[0]['match'];
  readonly plugins: readonly AnyPlugin[];
}

/** The pipelines as a generation has them. */
export async function describedPipelines(
  pipelines: readonly DescribedPipeline[],
): Promise<CompiledPipelines> {
  const { scope } = testScope();
  const compiled = [];
  for (const [index, { match, plugins }] of pipelines.entries()) {
    const instances: PluginInstance[] = [];
    for (const definition of plugins) {
      const hooks = await definition.create({}, scope);
      const { name } = definition;
      instances.push({ definition, name, hooks, onError: 'fail', timeoutMs: 0, builtIn: true });
    }
    compiled.push(compilePipeline({ name: `pipeline-${index}`, match, plugins: [] }, instances));
  }
  return compilePipelines(compiled);
}

/** The built-in plugins that contribute routes. */
export async function contributingPlugins(): Promise<readonly AnyPlugin[]> {
  const found: AnyPlugin[] = [];
  for (const plugin of builtInPlugins) {
    if (plugin.schema !== undefined && compileSchema(plugin.schema)({}).length > 0) continue;
    // Timers of a plugin that is asked for its routes alone never run.
    const { scope } = testScope({ setInterval: () => () => undefined });
    const { routes = [] } = await plugin.create({}, scope);
    if (routes.length > 0) found.push(plugin);
  }
  return found;
}

/** The administration routes of the built-in plugins, as a generation has them. */
export async function contributedPipelines(): Promise<CompiledPipelines> {
  const plugins = await contributingPlugins();
  return describedPipelines([{ match: { routes: 'contributed' }, plugins }]);
}

/** Every administration route of the built-in plugins. */
export async function contributedRoutes(): Promise<readonly RouteDefinition[]> {
  const { pipelines } = await contributedPipelines();
  return pipelines.flatMap((pipeline) => pipeline.routes.map(({ route }) => route));
}

/** The document of everything: all routes of the built-in plugins, and every endpoint of providers. */
export async function wholeDocument(): Promise<{
  document: OpenApiDocument;
  compiled: CompiledPipelines;
}> {
  const contributing = await contributingPlugins();
  const compiled = await describedPipelines([
    { match: { routes: 'contributed' }, plugins: contributing },
    { match: {}, plugins: [] },
  ]);
  const described = buildOpenApi(compiled, { base_path: '/v1', header_prefix: 'x-service' });
  return { document: JSON.parse(JSON.stringify(described)) as OpenApiDocument, compiled };
}

/** Every operation of a document with its place. */
export function operationsIn(document: OpenApiDocument) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, operation]) => 'operationId' in operation)
      .map(([method, operation]) => ({ path, method, operation: operation as Record<string, any> })),
  );
}

/** The faults of a value by a schema of the document. */
export function issuesOf(document: OpenApiDocument, schema: unknown, value: unknown): readonly Issue[] {
  return checkerOf(document, schema)(value);
}

const checkers = new WeakMap<object, (value: unknown) => readonly Issue[]>();

/** Says what is wrong with a value by this schema of the document; made once for each schema. */
export function checkerOf(document: OpenApiDocument, schema: unknown): (value: unknown) => readonly Issue[] {
  const present = checkers.get(schema as object);
  if (present !== undefined) return present;
  const definitions: Record<string, unknown> = {};
  const moved = (part: unknown): object =>
    JSON.parse(
      JSON.stringify(part).replaceAll(/#\/components\/schemas\/([\w.-]+)/g, (_, name: string) => {
        if (!(name in definitions)) {
          definitions[name] = true;
          definitions[name] = moved(document.components['schemas']?.[name]);
        }
        return `#/$defs/${name}`;
      }),
    ) as object;
  const allOf = [moved(schema)];
  const check = compileSchema({ $defs: definitions, allOf }, { all: true });
  const checker = (value: unknown): readonly Issue[] => check(value, () => undefined);
  checkers.set(schema as object, checker);
  return checker;
}

/** Every object within a value, with the path to it. */
export function* objectsWithin(
  value: unknown,
  path = '#',
): Generator<readonly [string, Record<string, any>]> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [path, value as Record<string, any>];
  for (const [name, member] of Object.entries(value)) yield* objectsWithin(member, `${path}/${name}`);
}
