import type { ProviderRow } from '../providers/provider-row.ts';
import type { IntegrationData, SecretMapping } from '../ports/record-kinds.ts';
import { readConfigurations, type GivenConfigurations } from './integration-configurations.ts';
import type { LimitIssue } from './limits-schema.ts';

/** An integration with its secrets in clear, by field: `key`, `configurations.<option>`, `models.<slug>.headers`. */
export interface IntegrationContent {
  readonly name: string;
  readonly data: IntegrationData;
  readonly plain: Readonly<Record<string, string>>;
}

/** What a body or a file says of an integration, apart from its settings and secrets. */
export interface SaidOfIntegration {
  readonly name?: string;
  readonly description?: string | null;
  readonly pricing_adjustments?: { readonly multiplier?: { readonly default: number } } | null;
}

/** Settings and secrets of an integration as they are to be, and what they are judged by. */
export interface IntegrationSettings {
  /** The credential; undefined for none. */
  readonly key: string | undefined;
  readonly configurations: GivenConfigurations;
  readonly secretMappings: readonly SecretMapping[];
  readonly row: ProviderRow;
  /** As in `ConfiguredProvider`. */
  readonly machineIdentity: boolean;
}

const noAccess: IntegrationData['globalAccess'] = { enabled: false, usageLimits: [], rateLimits: [] };

/** An integration of which nothing has been said yet: all models, no workspaces. */
export function emptyIntegration(name: string, aiProviderId: string): IntegrationContent {
  return {
    ...{ name, plain: {} },
    data: {
      ...{ aiProviderId, description: '', configurations: {}, secretMappings: [], allowAllModels: true },
      ...{ models: [], globalAccess: noAccess, workspaces: {}, priceMultiplier: 1 },
    },
  };
}

/** The integration after what is said of it (what is not, stays), and what is wrong with its settings. */
export function changedContent(
  said: SaidOfIntegration,
  before: IntegrationContent,
  { key, configurations, secretMappings, row, machineIdentity }: IntegrationSettings,
): { readonly content: IntegrationContent; readonly issues: readonly LimitIssue[] } {
  const mapped = new Set(secretMappings.map(({ targetField }) => targetField.replace('configurations.', '')));
  const { options, secrets, issues } = readConfigurations(configurations, {
    ...{ name: before.data.aiProviderId, row, mapped, machineIdentity },
    hasKey: key !== undefined || mapped.has('key'),
  });
  const { description, pricing_adjustments: pricing } = said;
  const content: IntegrationContent = {
    name: said.name ?? before.name,
    plain: {
      ...Object.fromEntries(Object.entries(before.plain).filter(([field]) => field.startsWith('models.'))),
      ...Object.fromEntries(Object.entries(secrets).map(([name, text]) => [`configurations.${name}`, text])),
      ...(key !== undefined && { key }),
    },
    data: {
      ...before.data,
      ...{ configurations: options, secretMappings },
      description: description === undefined ? before.data.description : (description ?? ''),
      priceMultiplier:
        pricing === undefined ? before.data.priceMultiplier : (pricing?.multiplier?.default ?? 1),
    },
  };
  return { content, issues };
}
