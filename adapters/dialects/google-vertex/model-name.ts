import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { encodeResource } from '../google-gemini/model-path.ts';

/** A model of Vertex AI: who made it, and where it stands. */
export interface VertexModel {
  /** `google`, `anthropic`, `mistralai`, `meta` …; `endpoints` for a model that was deployed to an endpoint of its own. */
  readonly publisher: string;
  /** Without its publisher. */
  readonly name: string;
  /** The complete resource name when the caller gave one. */
  readonly resource?: string;
}

/** Publishers in the order of their bare names; a name that none of these begins is Google's. */
const bareNames: readonly (readonly [RegExp, string])[] = [
  [/^claude/, 'anthropic'],
  [/^(?:mistral|ministral|codestral)/, 'mistralai'],
  [/^jamba/, 'ai21'],
  [/^llama/, 'meta'],
];

/** What may stand before a dot or a slash. Names of models have dots, too, so that only these count. */
const publishers: ReadonlySet<string> = new Set([
  'google',
  'anthropic',
  'meta',
  'mistralai',
  'ai21',
  'deepseek-ai',
  'qwen',
  'openai',
  'moonshotai',
  'minimaxai',
  'zai-org',
  'xai',
  'endpoints',
]);

/**
 * Reads a model in any of its forms: `anthropic.claude-sonnet-4`, `meta/llama-3.3-70b`, `publishers/google/models/x`, a
 * complete resource name (`projects/…/publishers/…/models/x`, `projects/…/endpoints/1`), `endpoints.1`, a bare name.
 */
export function readVertexModel(model: string): VertexModel {
  const published = /(?:^|\/)publishers\/([^/]+)\/models\/([^/]+)$/.exec(model);
  const isComplete = /^projects\/[^/]+\/locations\//.test(model);
  if (published !== null) {
    const publisher = published[1] as string;
    const name = published[2] as string;
    return isComplete ? { publisher, name, resource: model } : { publisher, name };
  }
  // A tuned Gemini model is deployed to an endpoint.
  if (isComplete)
    return { publisher: 'google', name: model.slice(model.lastIndexOf('/') + 1), resource: model };
  const [, before, after] = /^([^./]+)[./](.+)$/.exec(model) ?? [];
  if (before !== undefined && after !== undefined) {
    if (publishers.has(before)) return { publisher: before, name: after };
    if (before === 'models') return { publisher: 'google', name: after };
  }
  const known = bareNames.find(([pattern]) => pattern.test(model));
  return { publisher: known?.[1] ?? 'google', name: model };
}

/** Path of the project's part of the API. Throws `invalid_request` naming the setting that is missing. */
export function projectPath({ settings, provider }: HostFacts): string {
  const project = setting(settings.vertex_project_id, 'vertex_project_id', provider);
  const region = setting(settings.vertex_region, 'vertex_region', provider);
  return `/v1/${encodeResource(`projects/${project}/locations/${region}`)}`;
}

/** Path of a method of a model: `/v1/projects/p/locations/r/publishers/google/models/m:generateContent`. */
export function vertexPath(host: HostFacts, model: VertexModel, method: string): string {
  if (model.resource !== undefined) return `/v1/${encodeResource(model.resource)}:${method}`;
  if (model.publisher === 'endpoints')
    return `${projectPath(host)}/${encodeResource(`endpoints/${model.name}`)}:${method}`;
  return `${projectPath(host)}/${encodeResource(`publishers/${model.publisher}/models/${model.name}`)}:${method}`;
}

function setting(value: string | undefined, name: string, provider: string): string {
  if (value !== undefined && value !== '') return value;
  throw new GatewayError(
    'invalid_request',
    `The provider "${provider}" needs ${name}. Set it where the provider is configured, or name the model by its complete resource name (projects/…/locations/…/publishers/…/models/…).`,
    { param: name },
  );
}
