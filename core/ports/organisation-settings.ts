/** What members and managers may see and edit. Owners and admins always may everything. */
export interface DataVisibility {
  /** When false, members see only logs and analytics that their own keys generated. Default true. */
  readonly membersViewAllData: boolean;
  /** The same for managers. Default true. */
  readonly managersViewAllData: boolean;
  /** Default true. */
  readonly membersViewAnalytics: boolean;
  /** Default true. */
  readonly managersViewAnalytics: boolean;
}

/** Who may see and edit prompts. */
interface PromptAccess {
  /** Default true. */
  readonly membersViewPrompts: boolean;
  /** Default false. */
  readonly membersWritePrompts: boolean;
  /** Default true. */
  readonly managersViewPrompts: boolean;
  /** Default true. */
  readonly managersWritePrompts: boolean;
}

/** Who may see and edit configs. */
export interface ConfigAccess {
  /** Default true. */
  readonly membersViewConfigs: boolean;
  /** Default false. */
  readonly membersWriteConfigs: boolean;
  /** Default true. */
  readonly managersViewConfigs: boolean;
  /** Default true. */
  readonly managersWriteConfigs: boolean;
}

/** Bounds of the keys that people have for themselves. */
export interface UserKeyRules {
  /** Of each workspace; undefined: as many as they like (the default). */
  readonly maxPerWorkspace: number | undefined;
  /** Days after which a key ends whose maker said nothing about it; undefined: never (the default). */
  readonly defaultDays: number | undefined;
  /** The most days that a key may live; undefined: no bound (the default). */
  readonly maxDays: number | undefined;
}

/**
 * What is kept of requests. Their rows always are: limits, budgets and analytics are counted by them. `full`: bodies too,
 * unless the request, its key or the logger's options say otherwise; `metadata`: never.
 */
export type LoggingMode = 'full' | 'metadata';

/** How much is logged of requests. */
interface LoggingRules {
  /** Default `full`. */
  readonly mode: LoggingMode;
}

/** The settings of an organisation, in the categories that a workspace may override. */
export interface SecuritySettings {
  readonly data_visibility: DataVisibility;
  readonly prompts: PromptAccess;
  readonly configs: ConfigAccess;
  readonly user_api_keys: UserKeyRules;
  readonly logging: LoggingRules;
}

/** A category that an organisation may let its workspaces override. */
export type SettingsCategory = keyof SecuritySettings;

/** What holds while nobody has said anything else. */
export const defaultSecurity: SecuritySettings = {
  data_visibility: {
    membersViewAllData: true,
    managersViewAllData: true,
    membersViewAnalytics: true,
    managersViewAnalytics: true,
  },
  prompts: {
    membersViewPrompts: true,
    membersWritePrompts: false,
    managersViewPrompts: true,
    managersWritePrompts: true,
  },
  configs: {
    membersViewConfigs: true,
    membersWriteConfigs: false,
    managersViewConfigs: true,
    managersWriteConfigs: true,
  },
  user_api_keys: { maxPerWorkspace: undefined, defaultDays: undefined, maxDays: undefined },
  logging: { mode: 'full' },
};

/** What a request of an organisation begins with, and what it may do. */
export interface OrganisationSettings {
  readonly organisationId: string;
  readonly security: SecuritySettings;
  /** The categories that workspaces may override; none by default. */
  readonly overridable: readonly SettingsCategory[];
  readonly defaults: OrganisationDefaults;
  readonly updatedAt: number;
  /** 0 while nobody has changed anything. */
  readonly version: number;
}

/**
 * What requests of an organisation begin with. A workspace's own defaults come before these; a key's config does, too,
 * but not its metadata (see `beginWithDefaults`).
 */
export interface OrganisationDefaults {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly configId?: string;
  /** Those of the organisation: they judge every request of it, before those of the workspace. Absent for none. */
  readonly guardrails?: DefaultGuardrails;
  /** Workspaces, by id, whose requests the organisation's guardrails of a phase do not judge. Absent for none. */
  readonly excludedWorkspaces?: DefaultGuardrails;
}

/** By phase, in order: slugs or ids of stored guardrails that judge without being named, or ids of workspaces. */
export interface DefaultGuardrails {
  readonly input: readonly string[];
  readonly output: readonly string[];
}

/** What a workspace says instead of its organisation, a whole category at a time. */
export interface WorkspaceSettings {
  readonly workspaceId: string;
  readonly organisationId: string;
  readonly overrides: Partial<SecuritySettings>;
  readonly updatedAt: number;
  /** 0 while nobody has changed anything. */
  readonly version: number;
}

export interface SettingsReader {
  /** The defaults, version 0, when nobody has changed them. */
  ofOrganisation(organisationId: string): Promise<OrganisationSettings>;
  /** No overrides, version 0, when nobody has changed them. */
  ofWorkspace(organisationId: string, workspaceId: string): Promise<WorkspaceSettings>;
  /** Those of all workspaces that override something, for the directory. */
  ofWorkspaces(organisationId: string): Promise<readonly WorkspaceSettings[]>;
}

export interface SettingsWriter {
  /** Stores them when the stored ones have the version before; false otherwise. */
  replaceOrganisation(settings: OrganisationSettings): Promise<boolean>;
  /** Stores them when the stored ones have the version before; false otherwise. */
  replaceWorkspace(settings: WorkspaceSettings): Promise<boolean>;
}

/** The settings of an organisation in which nobody has changed any. */
export function defaultSettings(organisationId: string): OrganisationSettings {
  return {
    organisationId,
    security: defaultSecurity,
    overridable: [],
    defaults: {},
    updatedAt: 0,
    version: 0,
  };
}
