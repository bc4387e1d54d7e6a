import { directoryBehind, GatewayError } from '../errors/gateway-error.ts';
import { didYouMean } from '../base/did-you-mean.ts';
import { isPromise } from '../base/turns.ts';
import { addressedProvider, callerKey, callerKeyHeader } from '../pipeline/keys.ts';
import type { MaybePromise, RequestContext } from '../pipeline/context.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { TrustedHosts } from '../base/host-rules.ts';
import type { Target } from '../pipeline/router.ts';
import { mustBeGuarded, splitBaseUrl } from '../providers/base-url.ts';
import { credentialHeader } from './credentials.ts';
import type { LeafProvider } from './plan/plan-node.ts';
import type { StoredProviders } from './stored-providers.ts';
import { type Fields, holdsSecret, type KnownProvider } from './targets.ts';
import { providerFields, templateValue } from '../providers/provider-fields.ts';
import { hostFields } from '../providers/provider-row.ts';
import { isJsonType } from '../base/json.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/** Fields of a request without any. */
const noFields: Fields = Object.freeze({});
const fieldsByHeader = new Map(providerFields.map((field) => [field.header, field]));

/** Provider fields in the request's headers. Throws `invalid_header` for one that cannot be part of an address. */
function readFieldHeaders(context: RequestContext, headerPrefix: string): Fields {
  let found: Record<string, string> | undefined;
  for (const name of context.serviceNames()) {
    const field = fieldsByHeader.get(name);
    const value = field === undefined ? undefined : context.service(name);
    if (field === undefined || value === undefined || value === '') continue;
    if (field.template && !templateValue.test(value)) {
      throw new GatewayError(
        'invalid_header',
        `${headerPrefix}-${name} may hold letters, digits and hyphens, 63 at the most.`,
        { param: field.name },
      );
    }
    (found ??= {})[field.name] = value;
  }
  return found ?? noFields;
}

/** Fields that hold a whole address, by the name of their row. */
const addressFields: Readonly<Record<string, string>> = {
  huggingface: 'huggingface_base_url',
  'azure-ai': 'azure_foundry_url',
};

/** The whole address among the fields; undefined for none. */
function givenAddress(provider: KnownProvider, given: Fields): string | undefined {
  const field = addressFields[provider.name];
  return field === undefined ? undefined : given[field];
}

/** Throws when the headers of a request choose the host for a credential of the operator's config. */
function requireOwnAddress(provider: KnownProvider, given: Fields, own: Fields): void {
  if (given === noFields) return;
  const address = addressFields[provider.name];
  const deciding = hostFields(provider.row.base_url ?? '');
  for (const name of address === undefined ? deciding : [...deciding, address]) {
    if (given[name] === undefined || own[name] !== undefined) continue;
    throw new GatewayError(
      'invalid_header',
      `The config of the gateway holds a credential for "${provider.name}", so no header may choose its host. Leave ${name.replaceAll('_', '-')} out of the headers; the operator can set ${name} in the config.`,
      { param: name },
    );
  }
}

/** Rules for targets; compiled once per generation. */
export interface TargetRules {
  readonly known: ReadonlyMap<string, KnownProvider>;
  /** Providers of the store, after the known ones; absent for none. */
  readonly stored?: StoredProviders | undefined;
  readonly trustedHosts: TrustedHosts;
  /** Prefix of the gateway's own headers, for messages: `x-service`. */
  readonly headerPrefix: string;
  /** Prefix of service keys. */
  readonly keyPrefix: string;
}

/**
 * The target that the headers of a request name, before the body is read; undefined when they name none, so that the
 * model may (`@slug/model`). Never combines a held credential with a host that the request named.
 */
function resolveTarget(
  context: RequestContext,
  rules: TargetRules,
  brought?: BroughtSettings,
): MaybePromise<Target> | undefined {
  const named = context.service('provider') || undefined;
  const virtualKey = context.service('virtual-key') || undefined;
  if (named !== undefined && virtualKey !== undefined && slug(named) !== slug(virtualKey)) {
    throw new GatewayError(
      'provider_ambiguous',
      `The headers name two providers, "${shortened(named)}" and the virtual key "${shortened(virtualKey)}". ${requiredHeadersHint(rules)}`,
    );
  }
  const name = virtualKey ?? named;
  if (name === undefined) return undefined;
  if (virtualKey !== undefined) context.facts.virtualKey = virtualKey;
  const isSlug = virtualKey !== undefined || name.startsWith('@');
  return namedTarget(context, name, { isVirtualKey: virtualKey !== undefined, isSlug, rules, brought });
}

/** The target that a config names. Throws the error that prevents it. */
export function leafTarget(
  context: RequestContext,
  { name, kind }: LeafProvider,
  rules: TargetRules,
  brought: BroughtSettings,
): MaybePromise<Target> {
  const isVirtualKey = kind === 'virtual-key';
  const isSlug = isVirtualKey || name.startsWith('@');
  context.facts.virtualKey = isVirtualKey ? name : '';
  return namedTarget(context, name, { isVirtualKey, isSlug, rules, brought });
}

/** The default target of the configuration, for requests that name none. Throws `provider_missing`. */
function defaultTarget(
  context: RequestContext,
  rules: TargetRules,
  defaultProvider: string | undefined,
  brought?: BroughtSettings,
): MaybePromise<Target> {
  if (defaultProvider === undefined)
    throw new GatewayError(
      'provider_missing',
      `The request names no provider. ${requiredHeadersHint(rules)}`,
    );
  const isSlug = defaultProvider.startsWith('@');
  return namedTarget(context, defaultProvider, { isVirtualKey: false, isSlug, rules, brought });
}

/** Splits `@slug/model` when the caller has a provider of that slug; models of some hosts begin with `@`, too. */
export function addressedModel(
  model: unknown,
  { known, stored }: Pick<TargetRules, 'known' | 'stored'>,
  key: KeyRecord | undefined,
): { readonly slug: string; readonly model: string } | undefined {
  const name = slugOfModel(model);
  if (name === undefined) return undefined;
  const own = known.get(name);
  const isOurs =
    own?.configured === true ||
    own?.isInProcess === true ||
    (key !== undefined && stored?.has(key, name) === true);
  return isOurs ? { slug: name, model: (model as string).slice(name.length + 2) } : undefined;
}

/** Throws for a model `@slug/…` with an unknown slug, where nothing else names a provider. */
function requireSlug(model: unknown, rules: TargetRules, key: KeyRecord | undefined): void {
  const name = slugOfModel(model);
  if (name !== undefined) unknown(`@${name}`, { isVirtualKey: false, isSlug: true, rules }, key);
}

function slugOfModel(model: unknown): string | undefined {
  if (typeof model !== 'string' || !model.startsWith('@') || !model.includes('/')) return undefined;
  return model.slice(1, model.indexOf('/'));
}

/** The target of the provider that a model's `@slug/` names. */
function slugTarget(
  context: RequestContext,
  name: string,
  rules: TargetRules,
  brought?: BroughtSettings,
): MaybePromise<Target> {
  return namedTarget(context, `@${name}`, { isVirtualKey: false, isSlug: true, rules, brought });
}

/** Settings of a config for its target. */
export interface BroughtSettings {
  readonly apiKey: string | undefined;
  readonly fields: Fields;
  readonly customHost: string | undefined;
  /** The config is not the operator's: it is inline or saved. */
  readonly inline: boolean;
  /** Cached target for requests that add no settings of their own. */
  fixed?: Target;
  /** Provider of `fixed`: in another workspace, or after a change, the same slug is another provider. */
  fixedOf?: KnownProvider;
}

interface TargetChoice {
  readonly isVirtualKey: boolean;
  /** Addressed with an `@` or as a virtual key. */
  readonly isSlug: boolean;
  readonly rules: TargetRules;
  readonly brought: BroughtSettings | undefined;
}

/** The target of a provider by its name. A promise only while a secret of the store has to be fetched. */
function namedTarget(context: RequestContext, name: string, choice: TargetChoice): MaybePromise<Target> {
  const provider = lookUp(name, choice, context.get(callerKey));
  if (isPromise(provider)) return provider.then((found) => targetOf(context, found, choice));
  return targetOf(context, provider, choice);
}

function targetOf(context: RequestContext, provider: KnownProvider, choice: TargetChoice): Target {
  const { facts } = context;
  const { isSlug, rules, brought } = choice;
  facts.provider = provider.name;
  facts.pricedBy = undefined;
  facts.aiService = provider.row.service ?? provider.name;
  const takesCallers = provider.takesCallers && !isSlug;
  const headerHost = context.service('custom-host') || undefined;
  const given = takesCallers || headerHost ? readFieldHeaders(context, rules.headerPrefix) : noFields;
  if (brought !== undefined && hasSettings(brought)) {
    return targetOfConfig(context, provider, { brought, given, headerHost, takesCallers, rules });
  }
  const customHost = headerHost ?? givenAddress(provider, given);
  if (customHost) return customTarget(context, provider, customHost, { rules, given });
  if (!takesCallers) return provider.target;
  return withCallerCredential(context, provider, provider.callerTarget(given), rules);
}

function hasSettings({ apiKey, fields, customHost }: BroughtSettings): boolean {
  if (apiKey !== undefined || customHost !== undefined) return true;
  for (const _name in fields) return true;
  return false;
}

interface Bringing {
  readonly brought: BroughtSettings;
  readonly given: Fields;
  readonly headerHost: string | undefined;
  readonly takesCallers: boolean;
  readonly rules: TargetRules;
}

/** The target with the address and credential of its config; the config's own settings take precedence. */
function targetOfConfig(context: RequestContext, provider: KnownProvider, bringing: Bringing): Target {
  const { brought, given, headerHost, takesCallers, rules } = bringing;
  const { apiKey, inline } = brought;
  if (!inline && provider.isStored && (apiKey !== undefined || holdsSecret(brought.fields)))
    throw credentialWithheldError(provider);
  const isHeld = !inline && (apiKey !== undefined || holdsSecret(brought.fields));
  if (isHeld && brought.customHost === undefined && headerHost === undefined)
    requireOwnAddress(provider, given, brought.fields);
  const fields = { ...given, ...brought.fields };
  const host = headerHost ?? brought.customHost ?? givenAddress(provider, fields);
  if (host !== undefined) {
    // A credential of the operator's config is a held one: it never goes to a host that the request named.
    const isForeign = headerHost !== undefined && !inline;
    return customTarget(context, provider, host, {
      rules,
      given: isForeign ? given : fields,
      apiKey: isForeign ? undefined : apiKey,
      isTrusted: headerHost === undefined && !inline,
    });
  }
  if (apiKey !== undefined || holdsSecret(brought.fields)) {
    const make = (): Target => provider.configTarget({ fields, apiKey, configured: !inline });
    return given === noFields ? fixedTarget(brought, provider, make) : make();
  }
  if (takesCallers)
    return withCallerCredential(
      context,
      provider,
      provider.configTarget({ fields, apiKey, configured: false }),
      rules,
    );
  if (!inline) return fixedTarget(brought, provider, () => provider.heldTarget(brought.fields));
  throw new GatewayError(
    'invalid_config',
    `The config sets ${Object.keys(brought.fields).join(', ')} for "${provider.name}", whose credential the gateway holds. Leave it out, or send the config's own api_key.`,
    { param: 'config' },
  );
}

/** Refusal of the operator's credential for a stored provider, whose creator chooses its address. */
function credentialWithheldError({ name }: KnownProvider): GatewayError {
  return new GatewayError(
    'invalid_config',
    `The config of the gateway brings a credential of its own, which is not sent to the provider "@${name}" of a workspace. Name a provider of the gateway's configuration.`,
    { param: 'config' },
  );
}

function fixedTarget(brought: BroughtSettings, provider: KnownProvider, make: () => Target): Target {
  if (brought.fixed !== undefined && brought.fixedOf === provider) return brought.fixed;
  brought.fixed = make();
  brought.fixedOf = provider;
  return brought.fixed;
}

function requiredHeadersHint({ headerPrefix: prefix }: TargetRules): string {
  return (
    `Send one of: ${prefix}-virtual-key; ${prefix}-provider with "Authorization: Bearer <provider key>"; ` +
    `${prefix}-config; or ${prefix}-provider with ${prefix}-custom-host.`
  );
}

/** A name from a header, short enough for a message. */
function shortened(name: string): string {
  return name.slice(0, 200);
}

function slug(name: string): string {
  return name.startsWith('@') ? name.slice(1) : name;
}

function lookUp(name: string, choice: TargetChoice, key: KeyRecord | undefined): MaybePromise<KnownProvider> {
  const { known, stored } = choice.rules;
  const bare = slug(name);
  const provider = known.get(bare);
  if (provider && (provider.configured || !choice.isSlug)) return provider;
  const found = choice.isSlug && key !== undefined ? stored?.find(key, bare) : undefined;
  return found ?? (provider?.isInProcess === true ? provider : unknown(name, choice, key));
}

function unknown(
  name: string,
  { isVirtualKey, isSlug, rules: { known, stored } }: Omit<TargetChoice, 'brought'>,
  key: KeyRecord | undefined,
): never {
  const candidates = [...known]
    .filter(([, one]) => one.configured || one.isInProcess || !isSlug)
    .map(([one]) => one);
  if (isSlug && key !== undefined && stored !== undefined)
    candidates.push(...stored.all(key).map((one) => one.slug));
  const suggestion = didYouMean(slug(name), candidates);
  const remedy =
    stored === undefined || !isSlug
      ? 'Define it under providers: in the configuration.'
      : 'Make one for the workspace of the key, or define it under providers: in the configuration.';
  const hint = suggestion === undefined ? remedy : `Did you mean "${suggestion}"?`;
  const kind = isVirtualKey ? 'virtual key' : isSlug ? 'provider slug' : 'provider';
  if (isSlug && key !== undefined && stored?.isBehind === true)
    throw directoryBehind(`${kind} ${JSON.stringify(shortened(name))}`);
  throw new GatewayError('provider_unknown', `There is no ${kind} "${shortened(name)}". ${hint}`);
}

/** The caller's own credential, in the header in which the host expects it. */
function withCallerCredential(
  context: RequestContext,
  provider: KnownProvider,
  target: Target,
  { keyPrefix }: TargetRules,
): Target {
  const kind = provider.row.credentials ?? 'bearer';
  const isBearer = credentialHeader(kind, '').includes('authorization');
  if (isBearer || target.credentials !== undefined || context.get(callerKeyHeader) === 'authorization')
    return target;
  const bearer = /^Bearer\s+(.+)$/i.exec(context.header('authorization') ?? '')?.[1];
  if (bearer === undefined || bearer.startsWith(keyPrefix)) return target;
  return {
    ...target,
    headers: [...target.headers, ...credentialHeader(kind, bearer)],
    passAuthorization: false,
  };
}

interface CustomHost {
  readonly rules: TargetRules;
  readonly given: Fields;
  /** Credential that came with the address. */
  readonly apiKey?: string | undefined;
  /** The operator wrote the address. */
  readonly isTrusted?: boolean;
}

/**
 * The target at a host that the request names: one of `security.trusted_hosts`, or a public one. The address behind a
 * name is checked when the transport connects.
 */
function customTarget(
  context: RequestContext,
  provider: KnownProvider,
  customHost: string,
  { rules, given, apiKey, isTrusted = false }: CustomHost,
): Target {
  const guarded = mustBeGuarded(customHost, {
    isTrusted: (url) => isTrusted || rules.trustedHosts.has(url),
    param: `${rules.headerPrefix}-custom-host`,
  });
  const bare = { ...provider.customTarget(given, splitBaseUrl(customHost), apiKey), guarded };
  return apiKey === undefined ? withCallerCredential(context, provider, bare, rules) : bare;
}

/** Whether the request declares its body as JSON. */
export function declaresJson(context: Pick<RequestContext, 'header'>): boolean {
  return isJsonType(context.header('content-type'));
}

/** Whether headers name a provider, so that the model need not be examined. */
export function namesProvider(exchange: Exchange): boolean {
  return Boolean(exchange.service('provider') || exchange.service('virtual-key'));
}

/** Whether the model named a provider, according to `takeAddress`, or the prompt does. */
export function addressesProvider(exchange: Exchange): boolean {
  return exchange.get(addressedProvider) !== undefined;
}

/**
 * Removes the `@slug/` of the request's model where it addresses a provider of the configuration or of the caller's
 * workspace, and keeps it for `requestTarget`. A promise only when the body has to be read for it.
 */
export function takeAddress(exchange: Exchange, rules: TargetRules): MaybePromise<void> {
  const { body, endpoint } = exchange;
  if (addressesProvider(exchange)) return undefined;
  const isInPath = exchange.dialect.readCall !== undefined;
  if (!endpoint.modelled && !isInPath && !(mayAddress.has(endpoint.id) && declaresJson(exchange)))
    return undefined;
  if (!body.loaded && (endpoint.modelled || !isInPath))
    return body.load().then(() => takeAddress(exchange, rules));
  const addressed = addressedModel(namedModel(exchange), rules, exchange.get(callerKey));
  if (addressed === undefined) return undefined;
  exchange.set(addressedProvider, addressed.slug);
  if (exchange.dialect.readCall?.(exchange.path) === undefined) body.set(['model'], addressed.model);
  else exchange.path = withoutSlug(exchange.path, addressed.slug);
}

/** Endpoints whose JSON is read only for a provider in the model. */
const mayAddress: ReadonlySet<EndpointId> = new Set(['images.generations', 'audio.speech']);

/** The model in the request's path or in its body, which must be in memory. */
function namedModel({ dialect, path, body }: Exchange): unknown {
  const inPath = dialect.readCall?.(path);
  if (inPath !== undefined) return inPath.model;
  const { json } = body;
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined;
}

/**
 * The target that the request itself names, by headers or by its model (see `takeAddress`), else the default. `brought`
 * holds the settings of a config for it. A promise only while a secret has to be fetched. Throws `provider_missing`,
 * `provider_unknown`, `provider_ambiguous`, `provider_disabled`, `custom_host_refused`, `invalid_request`.
 */
export function requestTarget(
  exchange: Exchange,
  rules: TargetRules,
  defaultProvider: string | undefined,
  brought?: BroughtSettings,
): MaybePromise<Target> {
  const named = resolveTarget(exchange, rules, brought);
  if (named !== undefined) return named;
  const slug = exchange.get(addressedProvider);
  if (slug !== undefined) return slugTarget(exchange, slug, rules, brought);
  const isRead = exchange.endpoint.modelled && exchange.body.loaded;
  if (defaultProvider === undefined && isRead)
    requireSlug(namedModel(exchange), rules, exchange.get(callerKey));
  return defaultTarget(exchange, rules, defaultProvider, brought);
}

/** The path without the first `@slug/`, in any percent-encoding. */
function withoutSlug(path: string, slug: string): string {
  const at = /(?:@|%40)/i.exec(path);
  if (at === null) return path;
  const rest = path.slice(at.index + at[0].length + slug.length).replace(/^(?:\/|%2f)/i, '');
  return path.slice(0, at.index) + rest;
}
