/** Rights of members and managers to see data. Owners and admins always see everything. */
interface DataVisibility {
  /** If false, members see only logs and analytics of their own keys. Default true. */
  readonly membersViewAllData: boolean;
  /** The same for managers. Default true. */
  readonly managersViewAllData: boolean;
  /** Default true. */
  readonly membersViewAnalytics: boolean;
  /** Default true. */
  readonly managersViewAnalytics: boolean;
}

/** Rights of members and managers to see and edit prompts. */
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

/** Rights of members and managers to see and edit configs. */
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

/** Bounds of keys of type `workspace-user`. */
export interface UserKeyRules {
  /** Upper bound of such keys in each workspace; undefined: no bound (the default). */
  readonly maxPerWorkspace: number | undefined;
  /** Lifetime of a key that is created without one, in days; undefined: it never expires (the default). */
  readonly defaultDays: number | undefined;
  /** Upper bound of a key's lifetime in days; undefined: no bound (the default). */
  readonly maxDays: number | undefined;
  /** Their secrets are replaced every so many days, or more often; undefined: only where a key says so (the default). */
  readonly rotationDays?: number | undefined;
}

/**
 * Logged parts of requests. Their rows are always kept, because limits, budgets and analytics count them. `full`: bodies
 * too, unless the request, its key or the logger's options say otherwise; `metadata`: no bodies.
 */
type LoggingMode = 'full' | 'metadata';

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

/** Settings of an organisation that has changed none. */
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

/** Default values and security settings of an organisation. */
export interface OrganisationSettings {
  readonly organisationId: string;
  readonly security: SecuritySettings;
  /** The categories that workspaces may override; none by default. */
  readonly overridable: readonly SettingsCategory[];
  readonly defaults: OrganisationDefaults;
  readonly updatedAt: number;
  /** 0 before the first change. */
  readonly version: number;
}

/**
 * Default values for requests of an organisation. A workspace's own defaults take precedence; so does a key's config,
 * but not its metadata (see `beginWithDefaults`).
 */
export interface OrganisationDefaults {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly configId?: string;
  /** Guardrails for every request of the organisation; they run before those of the workspace. Absent for none. */
  readonly guardrails?: DefaultGuardrails;
  /** Ids of workspaces that are exempt from the organisation's guardrails of a phase. Absent for none. */
  readonly excludedWorkspaces?: DefaultGuardrails;
}

/** By phase, in order: slugs or ids of stored guardrails that apply by default, or ids of workspaces. */
export interface DefaultGuardrails {
  readonly input: readonly string[];
  readonly output: readonly string[];
}

/** A workspace's overrides of its organisation's settings, a whole category at a time. */
export interface WorkspaceSettings {
  readonly workspaceId: string;
  readonly organisationId: string;
  readonly overrides: Partial<SecuritySettings>;
  readonly updatedAt: number;
  /** 0 before the first change. */
  readonly version: number;
}

export interface SettingsReader {
  /** The defaults, with version 0, before the first change. */
  ofOrganisation(organisationId: string): Promise<OrganisationSettings>;
  /** No overrides, with version 0, before the first change. */
  ofWorkspace(organisationId: string, workspaceId: string): Promise<WorkspaceSettings>;
  /** Settings of all workspaces that override something; for the directory. */
  ofWorkspaces(organisationId: string): Promise<readonly WorkspaceSettings[]>;
}

export interface SettingsWriter {
  /** Stores them when the stored version is the previous one; false otherwise. */
  replaceOrganisation(settings: OrganisationSettings): Promise<boolean>;
  /** Stores them when the stored version is the previous one; false otherwise. */
  replaceWorkspace(settings: WorkspaceSettings): Promise<boolean>;
}

/** Settings of an organisation before the first change. */
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
