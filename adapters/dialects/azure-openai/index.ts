import { chatMembers, openAiChatProvider } from '../openai-chat/host.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { endpointPlan } from '../host-endpoints.ts';

/** Operations below a deployment in dated API versions. */
const ofDeployment =
  /^\/(chat\/completions|completions|embeddings|images\/(generations|edits)|audio\/[^/]+)\/*$/;

/** Versions of the undated surface; all except `v1` itself appear in the query. */
const undated: ReadonlySet<string> = new Set(['v1', 'preview', 'latest']);

/** The configured version of the API; empty for none. */
function versionOf({ settings }: HostFacts): string {
  return settings.azure_api_version ?? '';
}

/** The configured deployment, else one named like the requested model. */
function deploymentOf({ settings, model }: HostFacts): string {
  const configured = settings.azure_deployment_id ?? '';
  return configured === '' ? model : configured;
}

/** True when requests address a deployment (dated versions), not a model (`/v1`). */
function isDated(host: HostFacts): boolean {
  const version = versionOf(host);
  return version !== '' && !undated.has(version);
}

/** True when this path needs a deployment on this host. */
function needsDeployment(path: string, host: HostFacts): boolean {
  return isDated(host) && ofDeployment.test(path);
}

/**
 * The path below a base URL that ends in `/openai`: `/deployments/{deployment}/<operation>?api-version=…` for dated
 * versions, `/v1/<operation>` otherwise. `query` is the client's own, with its `?` or empty; it is kept, and its
 * `api-version` wins.
 */
function azurePath(path: string, query: string, host: HostFacts): string {
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

/** Endpoints that Azure answers in OpenAI's wire. */
const sameWire: ReadonlySet<EndpointId> = new Set(['chat.completions', 'completions', 'responses']);

const missing: Partial<Record<EndpointId, string>> = {
  'messages.count_tokens': 'token counting in this form',
  moderations: 'moderations',
  rerank: 'reranking',
};

/** Endpoints whose JSON names the model. */
const namesModel: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'embeddings',
  'responses',
  'images.generations',
  'audio.speech',
]);

/**
 * Azure's OpenAI service: OpenAI's wire at Azure's paths. Settings: `azure_deployment_id` (default: named like the
 * model), `azure_api_version` (default `v1`, the undated surface), `azure_model_name` (the model behind the
 * deployment). `chat` is the codec of the chat completions wire.
 */
function createAzureOpenAiHost(chat: ChatProviderCodec): ProviderDialect {
  const codec = atDeployment(chat);
  return {
    name: 'azure-openai',
    plan(call) {
      const operation = missing[call.endpoint];
      if (operation !== undefined) return endpointPlan.refused(call, operation);
      if (sameWire.has(call.endpoint)) return passTo(call);
      return endpointPlan.translated(call, codec) ?? passTo(call);
    },
  };
}

/** The facts with the deployment as the model; the output limit of the model behind it is kept. */
function deploymentFacts(host: HostFacts): HostFacts {
  const limit = chatMembers.outputLimitName(modelFacts(host));
  const { quirks } = host;
  const rename = limit === 'max_tokens' ? quirks.rename : { ...quirks.rename, max_tokens: limit };
  return {
    ...host,
    model: deploymentOf(host),
    quirks: rename === undefined ? quirks : { ...quirks, rename },
  };
}

type PassEdit = NonNullable<Extract<UpstreamPlan, { kind: 'pass' }>['edit']>;

/** Passes the bytes unchanged to Azure's path. */
function passTo(call: UpstreamCallFacts): UpstreamPlan {
  const { host, path, query } = call;
  const deployment = deploymentOf(host);
  if (needsDeployment(path, host) && deployment === '') {
    return {
      kind: 'refuse',
      message: `The provider "${host.provider}" needs a deployment: name it in azure_deployment_id, or name a model in the request.`,
    };
  }
  const target = azurePath(path, query, host);
  const edit = editOf(call, deployment);
  return edit === undefined ? { kind: 'pass', path: target } : { kind: 'pass', path: target, edit };
}

/** Edits of a passed body: the deployment as its model, and the chat members that the model behind it requires. */
function editOf(call: UpstreamCallFacts, deployment: string): PassEdit | undefined {
  const { endpoint, host } = call;
  if (call.method !== 'POST' || !namesModel.has(endpoint)) return undefined;
  const chat = endpoint === 'chat.completions' ? chatMembers.edits(modelFacts(host)) : undefined;
  // Without a deployment in the path, the body's model names it.
  const inBody = deployment !== host.model && (!isDated(host) || endpoint === 'responses');
  if (!inBody) return chat;
  return (body, report) => {
    chat?.(body, report);
    body.set(['model'], deployment);
  };
}

/** The facts with the model behind the deployment, when the provider's configuration names it. */
function modelFacts(host: HostFacts): HostFacts {
  const named = host.settings.azure_model_name ?? '';
  return named === '' ? host : { ...host, model: named };
}

/** The chat codec with its requests sent to the deployment. */
function atDeployment(chat: ChatProviderCodec): ChatProviderCodec {
  return {
    encodeRequest(request, host, report) {
      const encoded = chat.encodeRequest(
        request,
        isDated(host) ? modelFacts(host) : deploymentFacts(host),
        report,
      );
      const at = encoded.path.indexOf('?');
      const path = at === -1 ? encoded.path : encoded.path.slice(0, at);
      return { ...encoded, path: azurePath(path, at === -1 ? '' : encoded.path.slice(at), host) };
    },
    decodeAnswer: (body, context) => chat.decodeAnswer(body, context),
    eventReader: (contentType, context) => chat.eventReader(contentType, context),
    decodeError: (status, body) => chat.decodeError(status, body),
  };
}

/** Azure's OpenAI service. */
export const azureOpenAiHost = createAzureOpenAiHost(openAiChatProvider);
