// Guardrails and MCP servers of LiteLLM.
import { quoted } from '../../core/base/did-you-mean.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { type Written, writtenAs } from './draft.ts';
import type { ImportParts } from './litellm-models.ts';
import { importSources, type SourcePath } from './source.ts';

/** Checks of other vendors, with the check of the gateway to write instead. */
const checkRemedies: Readonly<Record<string, string>> = {
  aporia: 'aporia.validateProject, with the id of the project',
  'azure/prompt_shield': 'azure.shieldPrompt',
  'azure/text_moderations': 'azure.contentSafety',
  openai_moderation: 'default.judge, or mistral.moderateContent',
  pangea: 'pangea.textGuard',
  lasso: 'lasso.classify',
  panw_prisma_airs: 'panw-prisma-airs.intercept',
  pillar: 'pillar.scanPrompt and pillar.scanResponse',
  aim: 'default.webhook',
  guardrails_ai: 'default.webhook',
  generic_guardrail_api: 'default.webhook',
  llm_as_a_judge: 'default.judge',
  tool_permission: 'allow of plugins.mcp.servers, or the plugin of examples/plugins/tool-allow-list.ts',
};

/** Settings of MCP servers. */
const serverRemedies: Readonly<Record<string, string>> = {
  mcp_info: 'is text for people, and prices of tools, which the gateway does not count',
  description: 'is text for people; servers of the administration API have one',
  alias: 'rename the server under plugins.mcp.servers',
  enabled: 'a server in the file is on',
  authentication_token: 'see auth_type',
  access_groups: 'workspaces of the server say who may use it',
  mcp_access_groups: 'workspaces of the server say who may use it',
  disallowed_tools: 'tools.NAME.enabled: false of the server',
  allow_all_keys: 'a key needs the scope mcp.invoke',
  extra_headers: 'identity_headers of the server tell it who calls (docs/mcp.md)',
  oauth2_flow: 'oauth of the server (docs/mcp.md)',
  client_id: 'oauth.client_id of the server (docs/mcp.md)',
  client_secret: 'oauth.client_secret of the server (docs/mcp.md)',
  authorization_url: 'oauth.authorization_endpoint of the server (docs/mcp.md)',
  token_url: 'oauth.token_endpoint of the server (docs/mcp.md)',
  scopes: 'oauth.scope of the server (docs/mcp.md)',
};

/** Guardrails of the file become guardrails of the organisation. */
export function writeGuardrails(parts: ImportParts, list: JsonValue | undefined, isOlder: boolean): void {
  const { told, draft } = parts;
  if (!Array.isArray(list)) return;
  const section = isOlder ? ['litellm_settings', 'guardrails'] : ['guardrails'];
  const written: Written[] = [];
  const defaults: Record<'input_guardrails' | 'output_guardrails', string[]> = {
    input_guardrails: [],
    output_guardrails: [],
  };
  for (const [index, item] of list.entries()) {
    const at = [...section, index];
    const params = importSources.objectOf(importSources.objectOf(item)['litellm_params']);
    const name = importSources.objectOf(item)['guardrail_name'];
    if (isOlder || typeof name !== 'string') {
      told.missing(
        at,
        'is of an older form; write it under guardrails with guardrail_name and litellm_params',
      );
      continue;
    }
    const kind = importSources.textOf(params['guardrail']);
    const checks = checksOf(parts, kind, params, [...at, 'litellm_params']);
    if (checks === undefined || checks.length === 0) {
      const remedy = checkRemedies[kind];
      const own = kind.includes('.')
        ? 'runs code of yours: write it as a check of a plugin (docs/plugins.md)'
        : 'has no counterpart (docs/guardrails.md lists the checks)';
      told.missing(
        at,
        remedy === undefined
          ? own
          : `is not translated: write a guardrail with the check ${remedy} (docs/guardrails.md)`,
      );
      continue;
    }
    const slug = writtenAs.slug(name);
    written.push({ slug, name: writtenAs.escaped(name), checks, actions: { deny: true } });
    const modes = [params['mode']].flat().map(importSources.textOf);
    const phases = new Set(
      modes.map((mode) => (mode === 'post_call' ? 'output_guardrails' : 'input_guardrails')),
    );
    told.mapped([...at, 'guardrail_name'], `is the guardrail ${quoted(slug)} of organisation.guardrails`);
    told.mapped(
      [...at, 'litellm_params', 'guardrail'],
      `is ${checks.map(({ id }) => String(id)).join(' and ')}`,
    );
    if (modes.includes('during_call'))
      told.changed([...at, 'litellm_params', 'mode'], 'judges before the request is sent, not beside it');
    else if (params['mode'] !== undefined)
      told.mapped([...at, 'litellm_params', 'mode'], `is ${[...phases].join(' and ')}`);
    if (params['default_on'] === true) {
      for (const phase of phases) defaults[phase].push(slug);
      told.mapped([...at, 'litellm_params', 'default_on'], 'judges every request: organisation.defaults');
    } else
      told.changed(
        at,
        `is asked for by x-service-default-${modes.includes('post_call') ? 'output' : 'input'}-guardrails: ${slug}, or in a config; not by "guardrails" in the body`,
      );
  }
  if (written.length > 0) draft.organisation['guardrails'] = written;
  const named = Object.entries(defaults).filter(([, slugs]) => slugs.length > 0);
  if (named.length > 0) draft.organisation['defaults'] = Object.fromEntries(named);
}

/** Checks of a guardrail; undefined for a kind without a counterpart. */
function checksOf(
  { told, values }: ImportParts,
  kind: string,
  params: JsonObject,
  at: SourcePath,
): Written[] | undefined {
  const secret = (key: string, suggested: string): string | undefined => {
    const value = params[key];
    if (value === undefined) return undefined;
    told.mapped([...at, key], 'is a credential of the check');
    return values.secret([...at, key], value, suggested);
  };
  switch (kind) {
    case 'presidio':
      told.changed(
        [...at, 'guardrail'],
        'finds e-mail, phone, cards, IBAN, IP and national numbers by patterns; names are found by local.classifier alone',
      );
      return [{ id: 'default.pii', parameters: { redact: true } }];
    case 'hide-secrets':
    case 'hide_secrets':
      return [{ id: 'default.secrets', parameters: { redact: true } }];
    case 'lakera':
    case 'lakera_v2': {
      const apiKey =
        secret('api_key', 'LAKERA_API_KEY') ?? values.variable([...at, 'guardrail'], 'LAKERA_API_KEY');
      return [{ id: 'lakera.guard', parameters: { credentials: { apiKey } } }];
    }
    case 'bedrock': {
      const id = params['guardrailIdentifier'];
      const version = params['guardrailVersion'];
      if (id === undefined || version === undefined) return undefined;
      for (const key of ['guardrailIdentifier', 'guardrailVersion', 'aws_region_name'])
        if (params[key] !== undefined) told.mapped([...at, key], 'is a parameter of the check');
      const guardrailId = values.text([...at, 'guardrailIdentifier'], id);
      const guardrailVersion = values.text([...at, 'guardrailVersion'], version);
      const here = [...at, 'guardrail'];
      const credentials = {
        awsRegion:
          params['aws_region_name'] === undefined
            ? values.variable(here, 'AWS_REGION_NAME', 'us-west-2')
            : values.text([...at, 'aws_region_name'], params['aws_region_name']),
        awsAccessKeyId:
          secret('aws_access_key_id', 'AWS_ACCESS_KEY_ID') ?? values.variable(here, 'AWS_ACCESS_KEY_ID'),
        awsSecretAccessKey:
          secret('aws_secret_access_key', 'AWS_SECRET_ACCESS_KEY') ??
          values.variable(here, 'AWS_SECRET_ACCESS_KEY'),
      };
      return [{ id: 'bedrock.guard', parameters: { guardrailId, guardrailVersion, credentials } }];
    }
    case 'litellm_content_filter': {
      const checks: Written[] = [];
      const words = [params['blocked_words']].flat().flatMap((one) => {
        const word = typeof one === 'string' ? one : importSources.objectOf(one)['keyword'];
        return typeof word === 'string' ? [writtenAs.escaped(word)] : [];
      });
      if (words.length > 0) {
        checks.push({ id: 'default.contains', parameters: { words, operator: 'none' } });
        told.mapped([...at, 'blocked_words'], 'is default.contains with operator none');
      }
      if (Array.isArray(params['patterns']) && params['patterns'].length > 0) {
        checks.push({ id: 'default.pii', parameters: { redact: true } });
        told.changed(
          [...at, 'patterns'],
          'is default.pii: all kinds of personal data that it knows are replaced',
        );
      }
      return checks;
    }
    default:
      return undefined;
  }
}

/** MCP servers become options of the plugin `mcp`. */
export function writeMcpServers(parts: ImportParts, root: JsonObject): void {
  const { told, values, draft } = parts;
  for (const section of ['mcp_servers', 'mcp_builtin_servers'])
    for (const { name, written, at } of serversOf(root[section], section)) {
      const server = importSources.objectOf(written);
      if (server['enabled'] === false) {
        told.mapped(at, 'is switched off, and left out');
        continue;
      }
      const slug = writtenAs.slug(name).slice(0, 50);
      const prefix = writtenAs.variable(slug);
      const open = new Set(Object.keys(server));
      const take = (key: string): JsonValue | undefined => {
        open.delete(key);
        return server[key];
      };
      const mapped = (key: string, message: string): void => told.mapped([...at, key], message);
      const entry: Written = {};
      if (take('server_name') !== undefined) mapped('server_name', `is mcp.servers.${slug}`);
      const transport = importSources.textOf(take('transport'));
      const command = take('command');
      const url = take('url');
      if (typeof command === 'string') {
        entry['command'] = values.text([...at, 'command'], command);
        const args = take('args');
        if (Array.isArray(args))
          entry['args'] = args.map((one, index) => values.text([...at, 'args', index], one));
        const env = take('env');
        if (isJsonObject(env)) entry['env'] = values.named([...at, 'env'], env, prefix);
        for (const key of ['command', 'args', 'env'])
          if (server[key] !== undefined) mapped(key, `is ${key} of mcp.servers.${slug}`);
        told.changed(
          [...at, 'command'],
          'each session has a process of its own; the program gets its env alone, not that of the gateway',
        );
      } else if (typeof url === 'string') {
        const spec = take('spec_path');
        if (typeof spec === 'string') {
          entry['openapi'] = {
            document: values.text([...at, 'spec_path'], spec),
            base_url: values.address([...at, 'url'], url, `${prefix}_URL`),
          };
          mapped('spec_path', `is openapi.document of mcp.servers.${slug}`);
        } else {
          entry['url'] = values.address([...at, 'url'], url, `${prefix}_URL`);
          if (transport === 'sse') entry['transport'] = 'sse';
        }
        mapped('url', `is the address of mcp.servers.${slug}`);
        const headers = {
          ...authorization(parts, { server, at, prefix, take }),
          ...values.named([...at, 'static_headers'], take('static_headers'), prefix),
          ...values.named([...at, 'headers'], take('headers'), prefix),
        };
        for (const key of ['static_headers', 'headers'])
          if (server[key] !== undefined) mapped(key, `are headers of mcp.servers.${slug}`);
        if (Object.keys(headers).length > 0) entry['headers'] = headers;
      } else {
        told.missing(at, 'has neither url nor command, and is left out');
        continue;
      }
      if (server['transport'] !== undefined) mapped('transport', 'is the transport of the server');
      const tools = take('allowed_tools');
      if (Array.isArray(tools)) {
        entry['allow'] = tools.map(importSources.textOf);
        mapped('allowed_tools', `is allow of mcp.servers.${slug}`);
      }
      for (const key of open)
        told.missing([...at, key], serverRemedies[key] ?? 'is not known to the importer, and is left out');
      draft.mcpServers[slug] = entry;
    }
}

/** Servers by name; older files have a list of them. */
function serversOf(
  value: JsonValue | undefined,
  section: string,
): readonly { readonly name: string; readonly written: JsonValue; readonly at: SourcePath }[] {
  if (!Array.isArray(value))
    return Object.entries(importSources.objectOf(value)).map(([name, written]) => ({
      name,
      written,
      at: [section, name],
    }));
  return value.map((written, index) => ({
    ...{
      name: importSources.textOf(importSources.objectOf(written)['server_name']) || `server-${index + 1}`,
      written,
    },
    at: [section, index],
  }));
}

interface ServerPlace {
  readonly server: JsonObject;
  readonly at: SourcePath;
  readonly prefix: string;
  readonly take: (key: string) => JsonValue | undefined;
}

/** The header that `auth_type` means. */
function authorization(
  { told, values }: ImportParts,
  { server, at, prefix, take }: ServerPlace,
): Record<string, string> {
  const type = importSources.textOf(take('auth_type')) || 'none';
  const key = ['auth_value', 'authentication_token', 'env_key'].find((one) => server[one] !== undefined);
  if (key === undefined || type === 'none') {
    if (type !== 'none')
      told.missing(
        [...at, 'auth_type'],
        'callers do not bring a credential for the server: give it headers, or oauth (docs/mcp.md)',
      );
    else if (server['auth_type'] !== undefined) told.mapped([...at, 'auth_type'], 'no header is added');
    return {};
  }
  const value = take(key);
  const place = [...at, key];
  const token =
    key === 'env_key'
      ? values.variable(place, importSources.textOf(value))
      : values.secret(place, value, `${prefix}_TOKEN`);
  told.mapped(place, 'is a header of the server');
  told.mapped([...at, 'auth_type'], 'is a header of the server');
  switch (type) {
    case 'api_key':
      return { 'x-api-key': token };
    case 'basic':
      return { authorization: `Basic ${token}` };
    case 'authorization':
      return { authorization: token };
    default:
      return { authorization: `Bearer ${token}` };
  }
}
