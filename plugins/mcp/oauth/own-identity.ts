import {
  identityHeaderMistakes,
  oauthMistakes,
  secretsOfOauth,
  withoutOauthSecrets,
} from '../../../core/organisation/mcp-oauth.ts';
import type { OauthSecret } from '../../../core/organisation/mcp-token.ts';
import type { OptionFault } from '../../../core/pipeline/plugin.ts';
import type { McpIntegrationData, McpOauthSettings } from '../../../core/ports/record-kinds.ts';
import type { ServerOptions } from '../options.ts';
import type { ServerIdentity } from './server-identity.ts';

interface OwnOauth {
  readonly authType: McpIntegrationData['authType'];
  readonly settings: McpOauthSettings;
  readonly secret: OauthSecret | undefined;
}

function ownOauth({ oauth, headers }: ServerOptions): OwnOauth {
  if (oauth === undefined)
    return { authType: headers === undefined ? 'none' : 'headers', settings: {}, secret: undefined };
  const [secret] = secretsOfOauth(oauth);
  const authType = oauth.grant === 'client_credentials' ? 'oauth_client_credentials' : 'oauth_auto';
  return { authType, settings: withoutOauthSecrets(oauth), secret };
}

/** The identity of a server of the YAML. */
export function ownIdentity(
  place: Pick<ServerIdentity, 'id' | 'slug' | 'url'>,
  options: ServerOptions,
): ServerIdentity {
  const { authType, settings, secret } = ownOauth(options);
  return {
    ...place,
    authType,
    oauth: settings,
    identityHeaders: options.identity_headers ?? {},
    workspaceId: undefined,
    oauthSecret: () => secret,
  };
}

/** Every contradiction in the OAuth settings of a server of the YAML. `path` is that of the server. */
export function ownOauthFaults(path: string, options: ServerOptions): readonly OptionFault[] {
  const { url, oauth, identity_headers: headers = {} } = options;
  const faults = identityHeaderMistakes(headers).map((one) => ({
    path: `${path}/identity_headers${one.path}`,
    message: one.message,
  }));
  if (url === undefined) {
    const isThere = { oauth: oauth !== undefined, identity_headers: Object.keys(headers).length > 0 };
    for (const [name, there] of Object.entries(isThere))
      if (there) faults.push({ path: `${path}/${name}`, message: 'is for servers with a url; leave it out' });
    return faults;
  }
  if (oauth === undefined) return faults;
  const { authType, settings } = ownOauth(options);
  const secrets = new Set(secretsOfOauth(oauth).map(({ name }) => name));
  for (const one of oauthMistakes({ authType, settings, secrets }))
    faults.push({ path: `${path}/oauth${one.path}`, message: one.message });
  return faults;
}
