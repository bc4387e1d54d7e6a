import { GatewayError } from '../errors/gateway-error.ts';
import { didYouMean } from '../config/did-you-mean.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import type { RequestContext } from '../pipeline/context.ts';
import { refusedHost, type TrustedHosts } from '../ports/host-rules.ts';
import type { Target } from '../ports/router.ts';
import { credentialHeader, splitBaseUrl, type KnownProvider } from './targets.ts';

/** What decides over targets; compiled once per generation. */
export interface TargetRules {
  readonly known: ReadonlyMap<string, KnownProvider>;
  readonly trustedHosts: TrustedHosts;
  /** Of the gateway's own headers, for messages: `x-service`. */
  readonly headerPrefix: string;
  /** What service keys begin with. */
  readonly keyPrefix: string;
}

/**
 * The one target that a request names, or the default. Decided from headers alone, before the body is read.
 * A held credential is never combined with a host that the request named.
 */
export function resolveTarget(
  context: RequestContext,
  rules: TargetRules,
  defaultProvider: string | undefined,
): Target {
  const named = context.service('provider') || undefined;
  const virtualKey = context.service('virtual-key') || undefined;
  if (context.service('config')) {
    throw new GatewayError(
      'not_supported',
      `Configs in ${rules.headerPrefix}-config are not served yet. Name a provider in ${rules.headerPrefix}-provider instead.`,
      { param: 'config' },
    );
  }
  if (named !== undefined && virtualKey !== undefined && slug(named) !== slug(virtualKey)) {
    throw new GatewayError(
      'provider_ambiguous',
      `The headers name two providers, "${shown(named)}" and the virtual key "${shown(virtualKey)}". ${combinations(rules)}`,
    );
  }
  const name = virtualKey ?? named ?? defaultProvider;
  if (name === undefined)
    throw new GatewayError('provider_missing', `The request names no provider. ${combinations(rules)}`);
  const isSlug = virtualKey !== undefined || name.startsWith('@');
  const provider = lookUp(name, rules.known, virtualKey !== undefined, isSlug);
  const { facts } = context;
  if (virtualKey !== undefined) facts.virtualKey = virtualKey;
  const customHost = context.service('custom-host') || undefined;
  facts.provider = provider.target.provider;
  facts.aiService = provider.target.service;
  if (customHost !== undefined) return customTarget(context, provider, customHost, rules);
  if (isSlug || provider.callerTarget === undefined) return provider.target;
  return withCallerCredential(context, provider, provider.callerTarget, rules);
}

function combinations({ headerPrefix: prefix }: TargetRules): string {
  return (
    `Send one of: ${prefix}-virtual-key; ${prefix}-provider with "Authorization: Bearer <provider key>"; ` +
    `${prefix}-config; or ${prefix}-provider with ${prefix}-custom-host.`
  );
}

/** A name from a header, short enough for a message. */
function shown(name: string): string {
  return name.slice(0, 255);
}

function slug(name: string): string {
  return name.startsWith('@') ? name.slice(1) : name;
}

function lookUp(
  name: string,
  known: ReadonlyMap<string, KnownProvider>,
  isVirtualKey: boolean,
  mustBeConfigured: boolean,
): KnownProvider {
  const provider = known.get(slug(name));
  if (provider && (provider.configured || !mustBeConfigured)) return provider;
  const candidates = [...known].filter(([, one]) => one.configured || !mustBeConfigured).map(([key]) => key);
  const suggestion = didYouMean(slug(name), candidates);
  const hint =
    suggestion === undefined
      ? 'Define it under providers: in the configuration.'
      : `Did you mean "${suggestion}"?`;
  const kind = isVirtualKey ? 'virtual key' : mustBeConfigured ? 'provider slug' : 'provider';
  throw new GatewayError('provider_unknown', `There is no ${kind} "${shown(name)}". ${hint}`);
}

/** The caller's own credential, in the header in which the host expects it. */
function withCallerCredential(
  context: RequestContext,
  provider: KnownProvider,
  target: Target,
  { keyPrefix }: TargetRules,
): Target {
  const kind = provider.row.credentials ?? 'bearer';
  if (kind === 'bearer' || context.get(callerKeyHeader) === 'authorization') return target;
  const bearer = /^Bearer\s+(.+)$/i.exec(context.header('authorization') ?? '')?.[1];
  if (bearer === undefined || bearer.startsWith(keyPrefix)) return target;
  return {
    ...target,
    headers: [...target.headers, ...credentialHeader(kind, bearer)],
    passAuthorization: false,
  };
}

/** Longest custom host, in characters. */
const maxCustomHost = 2048;

/**
 * A host that the request names: one of `security.trusted_hosts`, or a public one. What a name leads to is seen when
 * it is connected to.
 */
function customTarget(
  context: RequestContext,
  provider: KnownProvider,
  customHost: string,
  rules: TargetRules,
): Target {
  const refusal = (reason: string): GatewayError =>
    new GatewayError('custom_host_refused', `The custom host is refused: ${reason}`, {
      param: `${rules.headerPrefix}-custom-host`,
    });
  if (customHost.length > maxCustomHost) throw refusal(`it is longer than ${maxCustomHost} characters.`);
  if (!URL.canParse(customHost)) throw refusal('it is no URL. Send https://host/path.');
  const url = new URL(customHost);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refusal('only http and https are served.');
  if (url.username !== '' || url.password !== '')
    throw refusal('it carries credentials. Send them in Authorization.');
  if (url.search !== '' || url.hash !== '')
    throw refusal('it has a query or a fragment. Send only scheme, host and path.');
  const trusted = rules.trustedHosts.has(url);
  const reason = trusted ? undefined : refusedHost(url.hostname);
  if (reason !== undefined) {
    throw refusal(`${reason}, and "${url.host}" is not listed in security.trusted_hosts.`);
  }
  const { origin, basePath } = splitBaseUrl(customHost);
  const { target } = provider;
  // Built from the row alone: `target.headers` may hold a credential that this host must never see.
  const rowHeaders = Object.entries(provider.row.headers ?? {}).flat();
  const bare: Target = {
    ...target,
    origin,
    basePath,
    guarded: !trusted,
    headers: provider.configured ? [] : rowHeaders,
    passAuthorization: true,
  };
  return withCallerCredential(context, provider, bare, rules);
}
