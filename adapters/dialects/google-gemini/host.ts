import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { anthropicClient } from '../anthropic-messages/client.ts';
import { passOn, refused, translated } from '../chat-plan.ts';
import { countTokensOperation } from '../count-tokens.ts';
import { geminiTokenCounting } from './count-tokens.ts';
import { createGeminiEmbeddings } from './embeddings-operation.ts';
import { createGeminiImages } from './images-operation.ts';
import { encodeResource, modelResource, readModelPath, withoutKey } from './model-path.ts';
import { createGeminiProvider } from './provider-codec.ts';
import { createGeminiSpeech } from './speech-operation.ts';

/** The path of a model's method below the host's root. */
function modelPath(host: HostFacts, method: string): string {
  return `/v1beta/${encodeResource(modelResource(host.model))}:${method}`;
}

/** Chat as the Gemini API speaks it. */
export const geminiProvider: ChatProviderCodec = createGeminiProvider(modelPath);

const embeddings = createGeminiEmbeddings(modelPath);
const images = createGeminiImages(modelPath);
const speech = createGeminiSpeech(modelPath);
const tokenCount = countTokensOperation(anthropicClient, geminiTokenCounting(modelPath));

/** The Gemini API (`generativelanguage.googleapis.com`). Its base URL is the host's root. */
export const googleGeminiHost: ProviderDialect = {
  name: 'google-gemini',
  plan(call) {
    if (call.spoken === 'google-gemini') return passGemini(call);
    const chat = translated(call, geminiProvider);
    if (chat !== undefined) return chat;
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: embeddings };
      case 'images.generations':
        return { kind: 'operation', codec: images };
      case 'audio.speech':
        return { kind: 'operation', codec: speech };
      case 'models':
        return { kind: 'pass', path: versioned(call.path) + withoutKey(call.query) };
      case 'moderations':
        return refused(call, 'moderation');
      case 'rerank':
        return refused(call, 'reranking');
      case 'messages.count_tokens':
        return { kind: 'operation', codec: tokenCount };
      default:
        return passOn(call);
    }
  },
};

/** The very bytes. The path is the one that the host knows, with the model that was routed to. */
function passGemini(call: UpstreamCallFacts): UpstreamPlan {
  const query = withoutKey(call.query);
  const named = readModelPath(call.path);
  if (named === undefined) return { kind: 'pass', path: call.path + query };
  if (call.endpoint !== 'generate-content' || call.host.model === '')
    return { kind: 'pass', path: versioned(call.path) + query };
  return { kind: 'pass', path: modelPath(call.host, named.method) + query };
}

/** The path below `/v1beta`, where all that the API has stands; an explicit preview version stays. */
function versioned(path: string): string {
  const plain = path.replace(/^\/proxy(?=\/)/, '');
  return /^\/v\d+(?:alpha|beta)\d*\//.test(plain) ? plain : `/v1beta${plain.replace(/^\/v1(?=\/)/, '')}`;
}
