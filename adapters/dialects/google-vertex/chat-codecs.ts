import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { createAnthropicProvider } from '../anthropic-messages/provider.ts';
import { encodeSegment } from '../google-gemini/model-path.ts';
import { createGeminiProvider } from '../google-gemini/provider-codec.ts';
import { openAiChatProvider } from '../openai-chat/provider.ts';
import { projectPath, readVertexModel, vertexPath, type VertexModel } from './model-name.ts';

/** The version of the Messages API that Vertex AI documents; it stands in the body. */
export const anthropicVersion = 'vertex-2023-10-16';

/** Publishers whose models take chat completions through `rawPredict`; the others take them at one address for all. */
const rawPredicted: ReadonlySet<string> = new Set(['mistralai', 'ai21']);

/** Gemini models, and tuned ones at their endpoint. */
export const vertexGemini: ChatProviderCodec = createGeminiProvider((host, method) =>
  vertexPath(host, readVertexModel(host.model), method),
);

const anthropic = createAnthropicProvider({
  path: '',
  extraBody: { anthropic_version: anthropicVersion },
  modelInPath: true,
  alsoOwn: ['google-vertex'],
});

/** Claude models: the Messages wire at `rawPredict`. */
export const vertexAnthropic: ChatProviderCodec = at(anthropic, ({ name }) => name, rawPredictPath);

/** Models that speak chat completions. */
export const vertexOpenAi: ChatProviderCodec = at(openAiChatProvider, openAiModel, openAiPath);

/** The codec that a model is spoken to with. */
export function codecOf({ publisher }: VertexModel): ChatProviderCodec {
  if (publisher === 'google') return vertexGemini;
  return publisher === 'anthropic' ? vertexAnthropic : vertexOpenAi;
}

/** Path of a Claude model, or of another one that takes raw bodies. */
export function rawPredictPath(host: HostFacts, model: VertexModel, stream: boolean): string {
  return vertexPath(host, model, stream ? 'streamRawPredict' : 'rawPredict');
}

/** Path of chat completions for a model. */
export function openAiPath(host: HostFacts, model: VertexModel, stream: boolean): string {
  if (rawPredicted.has(model.publisher)) return rawPredictPath(host, model, stream);
  const endpoint = model.publisher === 'endpoints' ? model.name : 'openapi';
  return `${projectPath(host)}/endpoints/${encodeSegment(endpoint)}/chat/completions`;
}

/** The model's name in a chat completions body. */
export function openAiModel({ publisher, name }: VertexModel): string {
  return rawPredicted.has(publisher) || publisher === 'endpoints' ? name : `${publisher}/${name}`;
}

/** A codec of another wire, with the model's own name and at its place in Vertex AI. */
function at(
  codec: ChatProviderCodec,
  nameOf: (model: VertexModel) => string,
  pathOf: (host: HostFacts, model: VertexModel, stream: boolean) => string,
): ChatProviderCodec {
  return {
    ...codec,
    encodeRequest(request, host, report) {
      const model = readVertexModel(host.model);
      const encoded = codec.encodeRequest(request, { ...host, model: nameOf(model) }, report);
      return { ...encoded, path: pathOf(host, model, request.stream) };
    },
  };
}
