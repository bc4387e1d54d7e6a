import type { DialectName } from '../../core/dialects/endpoint.ts';
import type { ListedModel, ModelListing } from '../../core/dialects/model-list.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { asArray, asCount, asObject, asText, parseObject, type JsonObject } from './json-reading.ts';

const openAi: ModelListing = {
  path: () => '/models',
  read: (body) => listed(body, 'data', (one) => entry(one, asText(one.id))),
};

const anthropic: ModelListing = {
  path: () => '/models?limit=1000',
  read: (body) => listed(body, 'data', (one) => entry(one, asText(one.id))),
};

const gemini: ModelListing = {
  path: () => '/v1beta/models?pageSize=1000',
  read: (body) => listed(body, 'models', (one) => entry(one, asText(one.name)?.replace(/^models\//, ''))),
};

const cohere: ModelListing = {
  path: () => '/v1/models?page_size=1000',
  read: (body) => listed(body, 'models', (one) => entry(one, asText(one.name))),
};

const azure: ModelListing = { ...openAi, path: () => '/v1/models' };

const workersAi: ModelListing = {
  path: () => '/models/search?per_page=1000',
  read: (body) => listed(body, 'result', (one) => entry(one, asText(one.name))),
};

/** How hosts list their models. Bedrock's list stands at another host and Vertex has none of its own: they are not asked. */
export const modelListings: Readonly<Partial<Record<DialectName, ModelListing>>> = {
  'openai-chat': openAi,
  'openai-completions': openAi,
  'openai-responses': openAi,
  'azure-openai': azure,
  'anthropic-messages': anthropic,
  'google-gemini': gemini,
  'cohere-v2': cohere,
  'workers-ai': workersAi,
};

function listed(
  body: Buffer,
  member: string,
  read: (one: JsonObject) => ListedModel | undefined,
): readonly ListedModel[] {
  const list = asArrayOfBody(body, member);
  if (list === undefined) {
    throw new GatewayError('upstream_invalid', "The provider's answer is no list of models.", {
      source: 'provider',
    });
  }
  return list.flatMap((one) => {
    const found = read(asObject(one) ?? {});
    return found === undefined ? [] : [found];
  });
}

/** Some hosts answer with the bare list. */
function asArrayOfBody(body: Buffer, member: string): readonly unknown[] | undefined {
  const text = body.toString('utf8');
  const whole = parseObject(text);
  if (whole !== undefined) return Array.isArray(whole[member]) ? asArray(whole[member]) : undefined;
  const bare = parseObject(`{"list":${text}}`)?.list;
  return Array.isArray(bare) ? asArray(bare) : undefined;
}

function entry(one: JsonObject, id: string | undefined): ListedModel | undefined {
  if (id === undefined) return undefined;
  const date = asText(one.created_at);
  const created = asCount(one.created) ?? (date === undefined ? NaN : Date.parse(date) / 1000);
  const owner = asText(one.owned_by);
  return {
    id,
    ...(Number.isFinite(created) ? { created } : {}),
    ...(owner === undefined ? {} : { ownedBy: owner }),
  };
}
