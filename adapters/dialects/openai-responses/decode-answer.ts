import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { given } from '../openai-chat/member-reading.ts';
import { attachSignature } from './attach-signature.ts';
import { decodeLogprobs } from './logprobs.ts';
import { responseError } from './stream-errors.ts';
import { partsOfItem } from './output-parts.ts';
import { isProviderRun, providerItem } from './provider-items.ts';
import { finishOf, responseExtras, serviceTier } from './response-facts.ts';

/** A complete response. Throws `upstream_invalid` for what is none, and for one that says that it failed. */
export function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const response = parseExactObject(body.toString('utf8'));
  if (response === undefined || !Array.isArray(response.output)) throw notAResponse(response);
  if (response.status === 'failed') {
    throw new GatewayError('upstream_invalid', `The provider failed: ${responseError(response).message}`, {
      source: 'provider',
    });
  }
  const parts: ChatPart[] = [];
  for (const value of response.output) addItem(parts, asObject(value) ?? {}, response, context);
  const calls = parts.some(({ type }) => type === 'tool-call');
  return given<ChatAnswer>({
    id: asText(response.id) ?? '',
    model: asText(response.model) ?? '',
    createdAt: asCount(response.created_at),
    choices: [
      given<ChatAnswer['choices'][number]>({
        index: 0,
        parts,
        finish: finishOf(response, calls),
        logprobs: logprobsOf(response),
      }),
    ],
    usage: decodeOpenAiUsage(response.usage),
    serviceTier: serviceTier(response),
    extras: responseExtras(response),
  });
}

function addItem(parts: ChatPart[], item: JsonObject, response: JsonObject, context: DecodeContext): void {
  if (isProviderRun(item, response.tools)) {
    parts.push(providerItem(item));
    return;
  }
  const found = partsOfItem(item, context.newId);
  parts.push(...found.parts);
  if (found.carried !== undefined) attachSignature(parts, found.carried);
}

function logprobsOf(response: JsonObject): ReturnType<typeof decodeLogprobs> {
  const all = asArray(response.output)
    .flatMap((item) => asArray(asObject(item)?.content))
    .flatMap((content) => decodeLogprobs(asObject(content)?.logprobs) ?? []);
  return all.length === 0 ? undefined : all;
}

function notAResponse(body: JsonObject | undefined): GatewayError {
  const error = body?.error === undefined || body.error === null ? undefined : responseError(body).message;
  return new GatewayError(
    'upstream_invalid',
    error === undefined
      ? 'The provider answered with something that is no response object: its "output" is missing.'
      : `The provider failed: ${error}`,
    { source: 'provider' },
  );
}
