import { accessTo } from '../access/integration-access.ts';
import { checkIssues } from '../organisation/guardrails.ts';
import type { Checks } from '../pipeline/plugin.ts';
import {
  changedUsage,
  conditionValues,
  type GivenRules,
  policyRuleIssues,
  unlimited,
  usagePolicyIssues,
} from '../organisation/policies.ts';
import { givenRateLimits, givenUsageLimit } from '../organisation/providers.ts';
import type { ConfigSource } from '../config/config-source.ts';
import {
  type Block,
  defaultWorkspaceSlug,
  type OrganisationBlock,
} from '../organisation/organisation-block.ts';
import type { Problem } from '../config/problem.ts';
import { servicePrefixes } from '../config/schema.ts';
import { quoted } from '../base/did-you-mean.ts';
import { integrationOfFile, settingIssues } from '../organisation/file-integration.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import { compileConfig } from '../routing/plan/compile-config.ts';
import { secretsInConfig } from '../routing/plan/node-settings.ts';
import { type KnowsProvider, providerLookup } from '../routing/plan/read-config.ts';
import { defaultGuardrailKeys } from '../organisation/route-config.ts';
import { readGuardrails } from '../routing/plan/read-guardrails.ts';
import { type ConfigsCheck, laterOr, problemOfConfig } from './check-configs.ts';
import { FileNames, hasStore, ownedProviders } from './check-organisation.ts';
import { OwnedProblems, suggestion } from './problem-at.ts';
import { mappableFields } from '../organisation/integrations.ts';
import type { Mistake } from '../base/json.ts';

/** Configuration whose records in `organisation` are checked. */
interface OrganisationResourcesCheck extends ConfigsCheck {
  readonly guards: Checks;
  /** Absent: the provider settings of integrations are not checked. */
  readonly providerRows?: ReadonlyMap<string, ProviderRow>;
}

/**
 * Problems that the schema cannot find in integrations, providers, configs, guardrails and policies of `organisation`:
 * duplicates, names without a record, settings that their provider does not take. A name that may be in the store is a
 * note.
 */
export function checkOrganisationResources(check: OrganisationResourcesCheck): Problem[] {
  const { organisation } = check.config;
  return organisation === undefined ? [] : new ResourceProblems(organisation, check).find();
}

const anyId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

type GuardrailDefaults = NonNullable<OrganisationBlock['defaults']>;

class ResourceProblems {
  readonly #block: OrganisationBlock;
  readonly #check: OrganisationResourcesCheck;
  readonly #source: ConfigSource;
  readonly #problems: OwnedProblems;
  readonly #workspaces: readonly string[];
  readonly #knowsProvider: KnowsProvider;
  readonly #configs: ReadonlyMap<string, Block<'config'>['config']>;

  constructor(block: OrganisationBlock, check: OrganisationResourcesCheck) {
    const { config, source, providerNames } = check;
    this.#block = block;
    this.#check = check;
    this.#source = source;
    this.#problems = new OwnedProblems(source);
    this.#workspaces = [defaultWorkspaceSlug, ...(block.workspaces ?? []).map(({ slug }) => slug)];
    const configured = Object.keys(config.providers);
    this.#knowsProvider = providerLookup({ builtIn: providerNames, configured });
    this.#configs = new Map(Object.entries(config.configs));
  }

  find(): Problem[] {
    const { integrations = [], providers = [], configs = [], guardrails = [] } = this.#block;
    const { rate_limit_policies: rates = [], usage_limit_policies: usages = [] } = this.#block;
    integrations.forEach((one, index) => this.#integration(one, `/organisation/integrations/${index}`));
    providers.forEach((one, index) => this.#provider(one, `/organisation/providers/${index}`));
    this.#providerSlugs();
    configs.forEach((one, index) => this.#config(one, `/organisation/configs/${index}`));
    guardrails.forEach((one, index) => {
      const pointer = `/organisation/guardrails/${index}`;
      this.#envelope('guardrail', one, pointer);
      const issues = checkIssues(one.checks, this.#check.guards);
      const named = issues.map(({ path, message }) => ({
        path,
        message: `${message} (guardrail ${quoted(one.slug)})`,
      }));
      this.#problems.refuseAll(named, pointer);
    });
    this.#guardrailDefaults(this.#block.defaults, '/organisation');
    (this.#block.workspaces ?? []).forEach(({ slug, defaults }, index) =>
      this.#guardrailDefaults(defaults, `/organisation/workspaces/${index}`, slug),
    );
    rates.forEach((one, index) => {
      const pointer = `/organisation/rate_limit_policies/${index}`;
      this.#envelope('rate-limit policy', one, pointer);
      this.#rules(one, policyRuleIssues(one, ''), pointer);
    });
    usages.forEach((one, index) => {
      const pointer = `/organisation/usage_limit_policies/${index}`;
      this.#envelope('usage-limit policy', one, pointer);
      this.#rules(one, usagePolicyIssues(one, changedUsage(one, unlimited)), pointer);
    });
    return this.#problems.found;
  }

  /** Guardrails that apply by default: those of the organisation, or of `workspace` and the organisation. */
  #guardrailDefaults(defaults: GuardrailDefaults | undefined, pointer: string, workspace?: string): void {
    const names = new FileNames(this.#check.config, this.#knowsProvider, workspace ?? '');
    const find = (name: string) => names.findGuardrail(name);
    for (const [key, phase, type] of defaultGuardrailKeys)
      readGuardrails(
        defaults?.[key] ?? [],
        { phase, type, place: key },
        { checks: this.#check.guards, find },
        ([index], message) => {
          const place = `${pointer}/defaults/${key}/${index ?? 0}`;
          if (names.later.has(message)) this.#problems.note(place, `"${key}": ${message}`);
          else this.#problems.refuse(place, `"${key}": ${message}`);
        },
      );
    const { workspace_exclusions: excluded = {} } = defaults ?? {};
    for (const [key] of defaultGuardrailKeys)
      (excluded[key] ?? []).forEach((slug, index) => {
        const place = `${pointer}/defaults/workspace_exclusions/${key}/${index}`;
        if (!anyId.test(slug)) this.#workspace(slug, place, key);
      });
  }

  /** Checks the workspace, and that the slug is unique. */
  #envelope(
    noun: string,
    one: { readonly slug: string; readonly workspace?: string },
    pointer: string,
  ): void {
    const { slug, workspace } = one;
    const message = `"slug": a second ${noun} has the slug ${quoted(slug)}`;
    this.#problems.once(`${noun} ${workspace ?? ''} ${slug}`, `${pointer}/slug`, message);
    if (workspace !== undefined) this.#workspace(workspace, `${pointer}/workspace`, 'workspace');
  }

  #workspace(slug: string, pointer: string, field: string): void {
    if (this.#workspaces.includes(slug)) return;
    const near = suggestion(slug, this.#workspaces);
    const remedy = near === '' ? '; define it under "organisation.workspaces"' : near;
    const message = `${quoted(field)}: there is no workspace ${quoted(slug)} in this file${remedy}`;
    this.#problems.refuse(pointer, message);
  }

  #integration(block: Block<'integration'>, pointer: string): void {
    this.#envelope('integration', block, pointer);
    const { providerRows, config } = this.#check;
    const { ai_provider_id: name, secret_mappings: mappings } = block;
    const row = providerRows?.get(name);
    if (providerRows !== undefined && row === undefined) {
      const near = suggestion(name, providerRows.keys());
      const remedy = near === '' ? '; docs/providers.md lists them' : near;
      const message = `"ai_provider_id": there is no provider ${quoted(name)} in this gateway${remedy}`;
      this.#problems.refuse(`${pointer}/ai_provider_id`, message);
    }
    this.#problems.refuseAll(integrationIssues(block, row), pointer);
    (mappings ?? []).forEach((one, index) => {
      const place = `${pointer}/secret_mappings/${index}/secret_reference_id`;
      const subject = `"secret_reference_id": the secret reference ${quoted(one.secret_reference_id)}`;
      if (hasStore(config))
        this.#problems.note(place, `${subject} is one of the store, and cannot be checked here`);
      else this.#problems.refuse(place, `${subject} would be one of the store, and there is none`);
    });
    this.#access(block, pointer);
  }

  #access(
    { workspace, workspaces, global_workspace_access: all, name }: Block<'integration'>,
    pointer: string,
  ): void {
    if (workspace !== undefined) {
      for (const [field, said] of Object.entries({ workspaces, global_workspace_access: all }))
        if (said !== undefined)
          this.#problems.refuse(
            `${pointer}/${field}`,
            `${quoted(field)}: ${quoted(name)} belongs to one workspace, which alone may use it; remove this, or the workspace`,
          );
      return;
    }
    (workspaces ?? []).forEach(({ id }, index) => {
      const place = `${pointer}/workspaces/${index}/id`;
      if (!anyId.test(id)) this.#workspace(id, place, 'id');
      const message = `"id": the workspace ${quoted(id)} is there twice; keep one`;
      this.#problems.once(`access ${pointer} ${id}`, place, message);
    });
    if (all?.enabled === true || workspaces?.some(({ enabled }) => enabled) === true) return;
    this.#problems.warn(
      pointer,
      `no workspace may use the integration ${quoted(name)}; enable it with "global_workspace_access" or "workspaces"`,
    );
  }

  #provider(block: Block<'provider'>, pointer: string): void {
    const { workspace, integration_id: named, usage_limits: usage, rate_limits: rates } = block;
    if (workspace !== undefined) this.#workspace(workspace, `${pointer}/workspace`, 'workspace');
    this.#problems.refuseAll(givenUsageLimit(usage ?? null, '/usage_limits').issues, pointer);
    this.#problems.refuseAll(givenRateLimits(rates ?? null, '/rate_limits').issues, pointer);
    const { expires_at: expires } = block;
    if (typeof expires === 'string' && Number.isNaN(Date.parse(expires)))
      this.#problems.refuse(`${pointer}/expires_at`, '"expires_at": write it like 2030-01-31T00:00:00Z');
    const seen = (this.#block.integrations ?? []).filter(
      (one) => one.workspace === undefined || one.workspace === workspace,
    );
    const own = seen.find((one) => one.slug === named && one.workspace === workspace);
    const integration = own ?? seen.find((one) => one.slug === named);
    const place = `${pointer}/integration_id`;
    if (integration === undefined) {
      const near = suggestion(
        named,
        seen.map(({ slug }) => slug),
      );
      const message = `"integration_id": there is no integration ${quoted(named)} in this file`;
      if (hasStore(this.#check.config))
        this.#problems.note(
          place,
          `${message}${near === '' ? '; ' : `${near} If not, `}it has to be one of the store, which is looked up when a request uses it and cannot be checked here`,
        );
      else
        this.#problems.refuse(
          place,
          `${message}${near === '' ? '; define it under "organisation.integrations"' : near}`,
        );
    } else if (workspace !== undefined && !this.#mayUse(integration, workspace))
      this.#problems.refuse(
        place,
        `"integration_id": the workspace ${quoted(workspace)} may not use the integration ${quoted(named)}; enable it there`,
      );
  }

  #mayUse(integration: Block<'integration'>, workspace: string): boolean {
    const { data } = integrationOfFile(integration, (name) => name);
    const isOwn = integration.workspace !== undefined;
    return (
      accessTo({ workspaceId: isOwn ? integration.workspace : undefined, data }, workspace) !== undefined
    );
  }

  /** Checks that each slug of a provider is unique, those from integrations included. */
  #providerSlugs(): void {
    const { providers } = this.#check.config;
    for (const { slug, workspace, pointer } of ownedProviders(this.#check.config)) {
      this.#problems.once(
        `provider ${workspace ?? ''} ${slug}`,
        pointer,
        `a second provider has the slug ${quoted(slug)}`,
      );
      if (Object.hasOwn(providers, slug))
        this.#problems.refuse(
          pointer,
          `the provider ${quoted(slug)} of "providers" has this slug, and requests would get that one; choose another`,
        );
    }
  }

  #config(block: Block<'config'>, pointer: string): void {
    this.#envelope('config', block, pointer);
    const { slug, workspace, config: input, is_default: isDefault } = block;
    if (this.#configs.has(slug))
      this.#problems.refuse(
        `${pointer}/slug`,
        `"slug": the config ${quoted(slug)} of "configs" has this name; choose another`,
      );
    if (isDefault === true && workspace === undefined)
      this.#problems.refuse(
        `${pointer}/is_default`,
        '"is_default": name the organisation\'s in "organisation.defaults.config_id"',
      );
    if (isDefault === true && workspace !== undefined)
      this.#problems.once(
        `default ${workspace}`,
        `${pointer}/is_default`,
        `"is_default": the workspace ${quoted(workspace)} has another default`,
      );
    const base = `${pointer}/config`;
    this.#problems.refuseAll(
      secretsInConfig(input).map(({ path, message }) => ({ path: pointerOf(path), message })),
      pointer,
    );
    const names = new FileNames(this.#check.config, this.#knowsProvider, workspace);
    const { server } = this.#check.config;
    const result = compileConfig(input, {
      id: slug,
      slug,
      isSaved: true,
      configs: this.#configs,
      saved: names,
      knowsProvider: names.knowsProvider,
      servicePrefixes: server === undefined ? [] : servicePrefixes(server),
      checks: this.#check.guards,
    });
    for (const issue of result.ok ? [] : result.issues)
      if (issue.within === undefined)
        this.#problems.found.push(laterOr(names, issue, problemOfConfig(issue, base, this.#source)));
    for (const issue of result.warnings)
      if (issue.within === undefined)
        this.#problems.found.push({ ...problemOfConfig(issue, base, this.#source), severity: 'warning' });
  }

  #rules(block: Required<GivenRules>, issues: readonly Mistake[], pointer: string): void {
    this.#problems.refuseAll(issues, pointer);
    block.conditions.forEach((condition, index) => {
      for (const { value, path } of conditionValues(condition, `${pointer}/conditions/${index}`))
        this.#conditionValue(condition.key, value, path);
    });
  }

  #conditionValue(key: string, value: string, place: string): void {
    if (value.endsWith('*') || anyId.test(value)) return;
    if (key === 'workspace_id') this.#workspace(value, place, 'value');
    if (key !== 'api_key') return;
    const alike = (this.#block.keys ?? []).filter(({ name }) => name === value).length;
    if (alike === 1) return;
    const what = alike === 0 ? 'there is no key' : 'there are several keys';
    const message = `"value": ${what} named ${quoted(value)} in this file; give the id of one`;
    this.#problems.refuse(place, message);
  }
}

/** `config.targets[0].api_key` as the pointer from its block: `/config/targets/0/api_key`. */
function pointerOf(place: string): string {
  return `/${place.replaceAll(/\[(\d+)\]/g, '/$1').replaceAll('.', '/')}`;
}

/**
 * Issues of one integration that its schema does not find, independent of other records: settings that its provider does
 * not take (checked only with its `row`), mappings, models and limits. Paths begin within the block.
 */
function integrationIssues(block: Block<'integration'>, row: ProviderRow | undefined): Mistake[] {
  const { global_workspace_access: all, workspaces } = block;
  return [
    ...(row === undefined ? [] : settingIssues(block, row)),
    ...(row === undefined ? [] : mappingIssues(block)),
    ...modelIssues(block),
    ...(all === undefined ? [] : accessIssues(all, '/global_workspace_access')),
    ...(workspaces ?? []).flatMap((one, index) => accessIssues(one, `/workspaces/${index}`)),
  ];
}

function mappingIssues({
  ai_provider_id: provider,
  secret_mappings: mappings,
}: Block<'integration'>): Mistake[] {
  const fields = mappableFields(provider);
  const seen = new Set<string>();
  return (mappings ?? []).flatMap(({ target_field: target }, index) => {
    const path = `/secret_mappings/${index}/target_field`;
    const field = fields.canonical(target);
    const refusal = fields.refusal(field) ?? (seen.has(field) ? 'is mapped already; keep one' : undefined);
    seen.add(field);
    return refusal === undefined ? [] : [{ path, message: refusal }];
  });
}

function modelIssues({ models = [] }: Block<'integration'>): Mistake[] {
  const seen = new Set<string>();
  return models.flatMap(({ slug }, index) => {
    if (!seen.has(slug)) return (seen.add(slug), []);
    return [{ path: `/models/${index}/slug`, message: 'is there twice; keep one' }];
  });
}

function accessIssues(
  { usage_limits: usage, rate_limits: rates }: NonNullable<Block<'integration'>['global_workspace_access']>,
  pointer: string,
): readonly Mistake[] {
  return [
    ...givenUsageLimit(usage ?? null, `${pointer}/usage_limits`).issues,
    ...givenRateLimits(rates ?? null, `${pointer}/rate_limits`).issues,
  ];
}
