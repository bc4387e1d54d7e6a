import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { chatEndpoints, passOn, refused } from '../chat-plan.ts';
import { createGeminiImages } from '../google-gemini/images-operation.ts';
import { readModelPath, withoutKey } from '../google-gemini/model-path.ts';
import { createGeminiSpeech } from '../google-gemini/speech-operation.ts';
import { anthropicVersion, codecOf, openAiModel, openAiPath, rawPredictPath } from './chat-codecs.ts';
import { vertexEmbeddings } from './embeddings-operation.ts';
import { projectPath, readVertexModel, vertexPath, type VertexModel } from './model-name.ts';

const images = createGeminiImages(pathOf);
const speech = createGeminiSpeech(pathOf);

/**
 * Vertex AI. Its base URL is the region's root; `vertex_project_id` and `vertex_region` come from the provider's
 * settings. The model decides which wire is spoken: Gemini's, Anthropic's or chat completions.
 */
export const googleVertexHost: ProviderDialect = {
  name: 'google-vertex',
  plan(call) {
    const model = readVertexModel(call.host.model);
    if (chatEndpoints.has(call.endpoint))
      return passOwn(call, model) ?? { kind: 'chat', codec: codecOf(model) };
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: vertexEmbeddings };
      case 'images.generations':
        return { kind: 'operation', codec: images };
      case 'audio.speech':
        return { kind: 'operation', codec: speech };
      case 'moderations':
        return refused(call, 'moderation');
      case 'rerank':
        return refused(call, 'reranking');
      case 'messages.count_tokens':
        return countTokens(call, model);
      default:
        return call.spoken === 'google-gemini' ? passMethod(call) : passOn(call);
    }
  },
};

function pathOf(host: HostFacts, method: string): string {
  return vertexPath(host, readVertexModel(host.model), method);
}

/** The very bytes where the client speaks the wire of the model that it asks for. */
function passOwn(call: UpstreamCallFacts, model: VertexModel): UpstreamPlan | undefined {
  const { host, stream } = call;
  if (call.endpoint === 'generate-content' && model.publisher === 'google') {
    const method = readModelPath(call.path)?.method ?? (stream ? 'streamGenerateContent' : 'generateContent');
    return { kind: 'pass', path: vertexPath(host, model, method) + withoutKey(call.query) };
  }
  if (call.endpoint === 'messages' && model.publisher === 'anthropic')
    return {
      kind: 'pass',
      path: rawPredictPath(host, model, stream),
      edit(body) {
        body.remove(['model']);
        body.set(['anthropic_version'], anthropicVersion);
      },
    };
  if (call.endpoint !== 'chat.completions' || model.publisher === 'google' || model.publisher === 'anthropic')
    return undefined;
  return {
    kind: 'pass',
    path: openAiPath(host, model, stream),
    edit: (body) => body.set(['model'], openAiModel(model)),
  };
}

/** Claude models count through a model of that name. */
function countTokens(call: UpstreamCallFacts, model: VertexModel): UpstreamPlan {
  if (model.publisher !== 'anthropic') return refused(call, 'token counting for the Messages API');
  return {
    kind: 'pass',
    path: `${projectPath(call.host)}/publishers/anthropic/models/count-tokens:rawPredict`,
    edit: (body) => body.set(['model'], model.name),
  };
}

/** Other methods of the Gemini wire (`:countTokens` …) at the model's place in Vertex AI. */
function passMethod(call: UpstreamCallFacts): UpstreamPlan {
  const named = readModelPath(call.path);
  if (named === undefined || named.method === '')
    return { kind: 'pass', path: call.path + withoutKey(call.query) };
  const path = vertexPath(call.host, readVertexModel(named.model), named.method);
  return { kind: 'pass', path: path + withoutKey(call.query) };
}
