import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { abilitiesOf } from '../anthropic-messages/model-abilities.ts';

/** Says what the name of a model tells of its abilities. */
export const bedrockModel = {
  read: readBedrockModel,
  ofHost: modelOfHost,
  path: modelPath,
  isNova2,
  hasStructuredOutput,
  forcedChoice,
  hasPromptCache,
};

/** Vendor and name of the model behind a Bedrock model id, inference profile or resource name. */
export interface BedrockModel {
  /** The id used in requests. */
  readonly id: string;
  /**
   * `anthropic`, `amazon`, `cohere` …; empty when the id does not show it (application inference profiles, imported
   * models).
   */
  readonly vendor: string;
  /** The part after the vendor: `claude-sonnet-4-5-20250929-v1:0`. Empty when the vendor is empty. */
  readonly name: string;
}

const vendors: ReadonlySet<string> = new Set([
  'ai21',
  'amazon',
  'anthropic',
  'cohere',
  'deepseek',
  'google',
  'luma',
  'meta',
  'minimax',
  'mistral',
  'moonshot',
  'moonshotai',
  'nvidia',
  'openai',
  'qwen',
  'stability',
  'twelvelabs',
  'writer',
  'zai',
]);

/**
 * Reads a model id, a cross-region profile (`eu.anthropic.…`) or a full resource name
 * (`arn:aws:bedrock:…:foundation-model/…`, `…:inference-profile/…`).
 */
function readBedrockModel(id: string): BedrockModel {
  const parts = id.slice(id.lastIndexOf('/') + 1).split('.');
  for (const at of [0, 1]) {
    const vendor = parts[at] as string;
    if (parts.length > at + 1 && vendors.has(vendor)) {
      return { id, vendor, name: parts.slice(at + 1).join('.') };
    }
  }
  return { id, vendor: '', name: '' };
}

/** The model of a host; when its id does not show it, the setting `aws_bedrock_model` names it. */
function modelOfHost(host: HostFacts): BedrockModel {
  const model = readBedrockModel(host.model);
  const behind = host.settings.aws_bedrock_model;
  if (model.vendor !== '' || behind === undefined) return model;
  return { ...readBedrockModel(behind), id: host.model };
}

/** `/model/{id}/{operation}`, the id escaped as one segment. */
function modelPath(id: string, operation: string): string {
  return `/model/${encodeURIComponent(id)}/${operation}`;
}

/** Nova models of the second generation, which support reasoning and have built-in tools. */
function isNova2({ vendor, name }: BedrockModel): boolean {
  return vendor === 'amazon' && name.startsWith('nova-2-');
}

const structuredModels: Readonly<Record<string, RegExp>> = {
  anthropic: /^claude-[a-z]+-4-[56](?!\d)/,
  deepseek: /^v3/,
  google: /^gemma-3/,
  minimax: /^minimax-m2/,
  mistral: /^(?:mistral-large-3|magistral|ministral-3|voxtral)/,
  moonshot: /^kimi/,
  moonshotai: /^kimi/,
  nvidia: /^nemotron/,
  openai: /^gpt-oss/,
  qwen: /^qwen3/,
};

/**
 * True for models that support `outputConfig.textFormat` and strict tools. Source: "Get validated JSON results from
 * models" in the Bedrock user guide; Claude models after 4.6 are missing there and refuse strict tools.
 */
function hasStructuredOutput(model: BedrockModel): boolean {
  return structuredModels[model.vendor]?.test(model.name) ?? false;
}

/** Tool choices that the model can be forced to: `tool` one named tool, `any` some tool, `auto` none. */
function forcedChoice(model: BedrockModel): 'tool' | 'any' | 'auto' {
  switch (model.vendor) {
    case 'anthropic':
      return abilitiesOf(model.name).forcedTool ? 'tool' : 'auto';
    case 'mistral':
      return 'any';
    case 'ai21':
    case 'cohere':
    case 'meta':
      return 'auto';
    default:
      return 'tool';
  }
}

/** True for models that support cache points; others refuse them. Ids of unknown vendors count as supporting them. */
function hasPromptCache({ vendor, name }: BedrockModel): boolean {
  return vendor === '' || vendor === 'anthropic' || (vendor === 'amazon' && name.startsWith('nova'));
}
