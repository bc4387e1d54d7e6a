import {
  McpOauthSchema,
  oauthField,
  oauthMistakes,
  oauthSecretName,
  type OauthSecretName,
  oauthSecretNames,
  oauthSecretOrigin,
  withoutOauthSecrets,
} from '../../../core/organisation/mcp-oauth.ts';
import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { McpIntegrationData, McpOauthSettings } from '../../../core/ports/record-kinds.ts';
import { maskOf, type PlainSecrets, unmasked } from '../shared/sealed-secrets.ts';
import type { Mistake } from '../../../core/base/json.ts';

const path = '/configurations/oauth';

/** OAuth settings in a body. */
type GivenOauth = Static<typeof McpOauthSchema>;

/** What the settings of an integration depend on. */
interface OauthChange {
  /** Absent: the settings stay. */
  readonly given: GivenOauth | undefined;
  readonly before: Pick<McpIntegrationData, 'oauth' | 'url'>;
  /** Opened secrets of the record as it was. */
  readonly plain: PlainSecrets;
  /** Of the record as it will be. */
  readonly after: Pick<McpIntegrationData, 'authType' | 'url' | 'secretMappings'>;
}

/** OAuth settings of an integration, and their secrets by field. */
interface ChangedOauth {
  readonly settings: McpOauthSettings;
  readonly plain: PlainSecrets;
}

/**
 * The settings after a change. Stored secrets stay valid only for the place that they were given for: a caller who does
 * not know them must not send them elsewhere.
 */
export function changedOauth(change: OauthChange, mistakes: Mistake[]): ChangedOauth {
  const { given, before, plain, after } = change;
  const settings = given === undefined ? (before.oauth ?? {}) : withoutOauthSecrets(given);
  const placeBefore = oauthSecretOrigin(before.oauth ?? {}, before.url).origin;
  const isMoved = before.url !== '' && placeBefore !== oauthSecretOrigin(settings, after.url).origin;
  const secrets: Record<string, string> = {};
  for (const name of oauthSecretNames) {
    const field = oauthField(name);
    const stored = plain[field];
    if (given !== undefined) {
      const text = given[name];
      if (text !== undefined)
        secrets[field] = unmasked(text, isMoved ? undefined : stored, mistakes, `${path}/${name}`);
    } else if (stored !== undefined) {
      secrets[field] = stored;
      const message = 'is missing: it would be sent to another server than before, so say it again';
      if (isMoved) mistakes.push({ path: `${path}/${name}`, message });
    }
  }
  mistakes.push(...contradictions(settings, secrets, after));
  return { settings, plain: secrets };
}

function contradictions(
  settings: McpOauthSettings,
  plain: PlainSecrets,
  { authType, secretMappings }: OauthChange['after'],
): readonly Mistake[] {
  const mapped = secretMappings.flatMap(({ targetField }) => oauthSecretName(targetField) ?? []);
  const own = oauthSecretNames.filter((name) => plain[oauthField(name)] !== undefined);
  const secrets: ReadonlySet<OauthSecretName> = new Set([...mapped, ...own]);
  return oauthMistakes({ authType, settings, secrets }).map((one) => ({
    path: `${path}${one.path}`,
    message: one.message,
  }));
}

/** OAuth settings in answers. */
export const McpOauthReply = Type.Object(McpOauthSchema.properties, {
  description: 'OAuth towards the server, with its secrets masked.',
});

/** The settings of an integration with masked secrets; undefined for none. */
export function showOauth(
  { oauth }: Pick<McpIntegrationData, 'oauth'>,
  plain: PlainSecrets,
): Static<typeof McpOauthReply> | undefined {
  const masked = oauthSecretNames.flatMap((name) => {
    const text = plain[oauthField(name)];
    return text === undefined ? [] : [[name, maskOf(text)] as const];
  });
  const shown = { ...oauth, ...Object.fromEntries(masked) };
  return Object.keys(shown).length === 0 ? undefined : shown;
}
