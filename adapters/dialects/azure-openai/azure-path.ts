import type { HostFacts } from '../../../core/dialects/host-facts.ts';

/** The operations that belong to a deployment where the API is dated. */
const ofDeployment =
  /^\/(chat\/completions|completions|embeddings|images\/(generations|edits)|audio\/[^/]+)\/*$/;

/** Versions of the undated surface; all but `v1` itself are named in the query. */
const undated: ReadonlySet<string> = new Set(['v1', 'preview', 'latest']);

/** The version of the API that the provider is configured for; empty for none. */
function versionOf({ settings }: HostFacts): string {
  return settings.azure_api_version ?? '';
}

/** The deployment that answers: the configured one, else one named like the model that was asked for. */
export function deploymentOf({ settings, model }: HostFacts): string {
  const configured = settings.azure_deployment_id ?? '';
  return configured === '' ? model : configured;
}

/** Whether the host is asked by deployment (dated versions) and not by model (`/v1`). */
export function isDated(host: HostFacts): boolean {
  const version = versionOf(host);
  return version !== '' && !undated.has(version);
}

/** Whether this path needs a deployment with this host. */
export function needsDeployment(path: string, host: HostFacts): boolean {
  return isDated(host) && ofDeployment.test(path);
}

/**
 * The path below a base URL that ends in `/openai`: `/deployments/{deployment}/<operation>?api-version=…` for dated
 * versions, `/v1/<operation>` otherwise. `query` is the client's own, with its `?` or empty; it is kept, and an
 * `api-version` in it wins.
 */
export function azurePath(path: string, query: string, host: HostFacts): string {
  const version = versionOf(host);
  const added: string[] = [];
  if (version !== '' && version !== 'v1' && !/[?&]api-version=/.test(query))
    added.push(`api-version=${encodeURIComponent(version)}`);
  if (isDated(host) && /^\/realtime\/*$/.test(path) && !/[?&]deployment=/.test(query))
    added.push(`deployment=${encodeURIComponent(deploymentOf(host))}`);
  const own = query.length > 1 ? query.slice(1) : '';
  const all = [...(own === '' ? [] : [own]), ...added].join('&');
  return basePath(path, host) + (all === '' ? '' : `?${all}`);
}

function basePath(path: string, host: HostFacts): string {
  if (!isDated(host)) return path.startsWith('/v1/') ? path : `/v1${path}`;
  if (!ofDeployment.test(path)) return path;
  return `/deployments/${encodeURIComponent(deploymentOf(host))}${path.replace(/\/+$/, '')}`;
}
