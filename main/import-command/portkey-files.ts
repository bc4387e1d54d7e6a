// Records in the files of Portkey: what each object is.
import path from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { writtenAs } from './draft.ts';
import type { Report } from './report.ts';
import { importSources, type Source, type SourcePath } from './source.ts';

/** Keys by which a config is told from other objects. */
const tellingKeys = [
  'strategy',
  'targets',
  'options',
  'retry',
  'cache',
  'virtual_key',
  'virtualKey',
  'provider',
  'override_params',
  'overrideParams',
  'input_guardrails',
  'before_request_hooks',
];

/** Members of lists that hold no records. */
const listMembers = new Set(['success', 'object', 'total', 'has_more']);

/** A record of a list, with its place. */
export interface SourceRecord {
  readonly source: Source;
  readonly value: JsonObject;
  readonly at: SourcePath;
}

/** The records of all files. */
export interface Found {
  readonly configs: (SourceRecord & {
    readonly name: string;
    readonly config: JsonValue;
    readonly configAt: SourcePath;
  })[];
  readonly keys: SourceRecord[];
  readonly guardrails: SourceRecord[];
  /** True when a file is a `conf.json`, which may hold none of them. */
  isOfGateway: boolean;
}

/** Sorts the objects of one file by what they are. */
function gatherRecords(source: Source, found: Found, report: Report): void {
  const told = report.of(source);
  const visit = (value: unknown, at: SourcePath): void => {
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) visit(item, [...at, index]);
      return;
    }
    if (!isJsonObject(value)) return;
    if (at.length === 0 && isOfGateway(value)) found.isOfGateway = true;
    const record = { source, value, at };
    const name =
      importSources.textOf(value['slug']) ||
      importSources.textOf(value['name']) ||
      path.parse(source.file).name;
    if (value['config'] !== undefined && typeof value['slug'] === 'string') {
      const written = value['config'];
      // Versions of a saved config hold it as text.
      const parsed: unknown = typeof written === 'string' ? parsedOf(written) : written;
      if (isJsonObject(parsed)) {
        found.configs.push({
          ...record,
          name,
          config: parsed,
          configAt: typeof written === 'string' ? [] : [...at, 'config'],
        });
        for (const key of Object.keys(value))
          if (key !== 'config' || typeof written === 'string')
            told.mapped(
              [...at, key],
              key === 'config' ? `is configs.${writtenAs.slug(name)}` : 'tells of the record',
            );
      } else told.missing([...at, 'config'], 'is no JSON object');
    } else if (Array.isArray(value['checks'])) found.guardrails.push(record);
    else if (isKey(value)) found.keys.push(record);
    else if (isConfig(value) && (at.length === 0 || typeof at.at(-1) === 'string'))
      found.configs.push({
        ...record,
        name: importSources.textOf(at.at(-1)) || path.parse(source.file).name,
        config: value,
        configAt: at,
      });
    else
      for (const [key, item] of Object.entries(value)) {
        const sentence = settingsOfConf[key];
        if (sentence !== undefined && (at.length === 0 || listMembers.has(key)))
          told[sentence[0]]([...at, key], sentence[1]);
        else visit(item, [...at, key]);
      }
  };
  visit(source.value, []);
}

/** Settings of `conf.json` and members of lists that hold no records. */
const settingsOfConf: Readonly<Record<string, readonly ['mapped' | 'changed' | 'missing', string]>> = {
  admin_token: ['changed', 'the owner key administers: the first start shows it, or take WEIR_ADMIN_KEY'],
  plugins_enabled: ['mapped', 'checks of guardrails need not be switched on'],
  credentials: [
    'missing',
    'credentials of checks are options of the plugin guardrails: services.NAME.credentials (docs/guardrails.md)',
  ],
  success: ['mapped', 'tells of the list'],
  object: ['mapped', 'tells of the list'],
  total: ['mapped', 'tells of the list'],
  has_more: ['mapped', 'tells of the list'],
  cache: ['mapped', 'the plugin cache caches what a config says'],
  api_keys: ['missing', 'secrets of keys are not exported: make keys anew (docs/administration.md)'],
};

function isOfGateway(value: JsonObject): boolean {
  return ['integrations', 'plugins_enabled', 'admin_token'].some((key) => key in value);
}

/** A config, and no `conf.json`. */
function isConfig(value: JsonObject): boolean {
  return !isOfGateway(value) && tellingKeys.some((key) => key in value);
}

function isKey(value: JsonObject): boolean {
  const kind = kindOf(value);
  return typeof value['slug'] === 'string' && kind !== undefined;
}

/** Kind of provider of a virtual key or integration. */
function kindOf(value: JsonObject): string | undefined {
  for (const key of ['ai_provider_id', 'ai_provider_name', 'ai_provider', 'provider', 'provider_name'])
    if (typeof value[key] === 'string') return value[key];
  return undefined;
}

function parsedOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Fields whose name in records is shorter. */
const shortNames: Readonly<Record<string, string>> = {
  resource_name: 'azure_resource_name',
  deployment_name: 'azure_deployment_id',
  deployment_id: 'azure_deployment_id',
  api_version: 'azure_api_version',
  region: 'aws_region',
  access_key_id: 'aws_access_key_id',
  secret_access_key: 'aws_secret_access_key',
};

/** Kinds of providers by words in the name of a virtual key, the more exact ones first. */
const guesses: readonly (readonly [string, string])[] = [
  ['azure', 'azure-openai'],
  ['openrouter', 'openrouter'],
  ['bedrock', 'bedrock'],
  ['anthropic', 'anthropic'],
  ['claude', 'anthropic'],
  ['mistral', 'mistral-ai'],
  ['groq', 'groq'],
  ['together', 'together-ai'],
  ['cohere', 'cohere'],
  ['perplexity', 'perplexity-ai'],
  ['deepseek', 'deepseek'],
  ['gemini', 'google'],
  ['google', 'google'],
  ['openai', 'openai'],
  ['open-ai', 'openai'],
  ['gpt', 'openai'],
];

/** Records in the files of an export. */
export const portkeyFiles = { gather: gatherRecords, kindOf, shortNames, guesses };
