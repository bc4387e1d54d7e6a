import { GatewayError } from '../errors/gateway-error.ts';
import { didYouMean } from '../config/did-you-mean.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { Target } from '../ports/router.ts';
import { credentialHeader, splitBaseUrl, type KnownProvider } from './targets.ts';

const combinations =
  'Send one of: a virtual key (…-virtual-key); a provider (…-provider) with Authorization: Bearer <provider key>; ' +
  'a config (…-config); or a provider with a custom host (…-provider and …-custom-host).';

/**
 * The one target that a request names, or the default. Decided from headers alone, before the body is read.
 * A held credential is never combined with a host that the request named.
 */
export function resolveTarget(
  context: RequestContext,
  known: ReadonlyMap<string, KnownProvider>,
  trustedHosts: ReadonlySet<string>,
  defaultProvider: string | undefined,
): Target {
  const named = context.service('provider');
  const virtualKey = context.service('virtual-key');
  if (context.service('config') !== undefined) {
    throw new GatewayError(
      'not_supported',
      'Configs in a header are not served yet. Name a provider instead.',
      { param: 'config' },
    );
  }
  if (named !== undefined && virtualKey !== undefined && slug(named) !== virtualKey) {
    throw new GatewayError(
      'provider_ambiguous',
      `The headers name two providers, "${named}" and the virtual key "${virtualKey}". ${combinations}`,
    );
  }
  const name = virtualKey ?? named ?? defaultProvider;
  if (name === undefined)
    throw new GatewayError('provider_missing', `The request names no provider. ${combinations}`);
  const provider = lookUp(name, known, virtualKey !== undefined);
  if (virtualKey !== undefined) context.facts.virtualKey = virtualKey;
  const customHost = context.service('custom-host');
  const { target } = provider;
  context.facts.provider = target.provider;
  context.facts.aiService = target.service;
  if (customHost !== undefined) return customTarget(context, provider, customHost, trustedHosts);
  return provider.held ? target : withCallerCredential(context, provider, target);
}

function slug(name: string): string {
  return name.startsWith('@') ? name.slice(1) : name;
}

function lookUp(
  name: string,
  known: ReadonlyMap<string, KnownProvider>,
  isVirtualKey: boolean,
): KnownProvider {
  const provider = known.get(slug(name));
  const mustBeConfigured = isVirtualKey || name.startsWith('@');
  if (provider && (provider.configured || !mustBeConfigured)) return provider;
  const candidates = [...known].filter(([, one]) => one.configured || !mustBeConfigured).map(([key]) => key);
  const suggestion = didYouMean(slug(name), candidates);
  const hint =
    suggestion === undefined
      ? 'Define it under providers: in the configuration.'
      : `Did you mean "${suggestion}"?`;
  const kind = isVirtualKey ? 'virtual key' : mustBeConfigured ? 'provider slug' : 'provider';
  throw new GatewayError('provider_unknown', `There is no ${kind} "${name.slice(0, 255)}". ${hint}`);
}

/** The caller's own credential, in the header in which the host expects it. */
function withCallerCredential(context: RequestContext, provider: KnownProvider, target: Target): Target {
  const kind = provider.row.credentials ?? 'bearer';
  if (kind === 'bearer' || context.get(callerKeyHeader) === 'authorization') return target;
  const bearer = /^Bearer\s+(.+)$/i.exec(context.header('authorization') ?? '')?.[1];
  if (bearer === undefined) return target;
  return {
    ...target,
    headers: [...target.headers, ...credentialHeader(kind, bearer)],
    passAuthorization: false,
  };
}

function customTarget(
  context: RequestContext,
  provider: KnownProvider,
  customHost: string,
  trustedHosts: ReadonlySet<string>,
): Target {
  const refusal = (reason: string): GatewayError =>
    new GatewayError('custom_host_refused', `The custom host is refused: ${reason}`, {
      param: 'custom-host',
    });
  if (!URL.canParse(customHost)) throw refusal('it is no URL. Send https://host/path.');
  const url = new URL(customHost);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refusal('only http and https are served.');
  if (url.username !== '' || url.password !== '')
    throw refusal('it carries credentials. Send them in Authorization.');
  if (url.search !== '' || url.hash !== '')
    throw refusal('it has a query or a fragment. Send only scheme, host and path.');
  if (!trustedHosts.has(url.hostname) && !trustedHosts.has(url.host)) {
    throw refusal(`"${url.host}" is not listed in security.trusted_hosts.`);
  }
  const { origin, basePath } = splitBaseUrl(customHost);
  const { target } = provider;
  // Built from the row alone: `target.headers` may hold a credential that this host must never see.
  const rowHeaders = Object.entries(provider.row.headers ?? {}).flat();
  const bare: Target = {
    ...target,
    origin,
    basePath,
    headers: provider.configured ? [] : rowHeaders,
    passAuthorization: true,
  };
  return withCallerCredential(context, provider, bare);
}
