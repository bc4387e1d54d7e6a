import type { CompiledPipelines } from '../serving.ts';
import { administrationOperation } from './administration-operation.ts';
import { DocumentWriter, type DescribedServer, type OpenApiDocument } from './document-writer.ts';
import { routedOperation } from './gateway-operation.ts';
import { jobOperations } from './job-operations.ts';
import { modelOperations } from './model-operations.ts';
import type { Operation } from './operation.ts';
import { operationalOperations } from './operational-operations.ts';
import { proxyOperations } from './proxy-operations.ts';

/**
 * Describes what these pipelines serve: endpoints of providers where a pipeline takes them, the administration routes
 * that plugins contribute, and the pages for operators. Made anew on every call.
 */
export function buildOpenApi(compiled: CompiledPipelines, server: DescribedServer): OpenApiDocument {
  const writer = new DocumentWriter(server);
  for (const operation of operationsOf(compiled)) writer.add(operation);
  return writer.finish();
}

/** What is served, by tag. A contributed route takes the place of an endpoint of providers that has its path. */
export function operationsOf(compiled: CompiledPipelines): readonly Operation[] {
  const routed = [...modelOperations, ...jobOperations, ...proxyOperations].flatMap(([tag, operations]) =>
    operations.filter((one) => isServed(compiled, one)).map((one) => routedOperation(one, tag)),
  );
  const contributed = compiled.pipelines
    .filter((pipeline) => pipeline.match.routes === 'contributed')
    .flatMap((pipeline) => pipeline.routes.map(({ route }) => administrationOperation(route)));
  return [...routed, ...contributed, ...operationalOperations];
}

function isServed(
  { routes }: CompiledPipelines,
  { method, path }: Pick<Operation, 'method' | 'path'>,
): boolean {
  const proxied = path.startsWith('/proxy/');
  const below = (proxied ? path.slice('/proxy'.length) : path).replaceAll(/\{\w+\}/g, 'x');
  const matched = routes.match(method, below, proxied);
  return matched !== undefined && matched.route === undefined;
}
