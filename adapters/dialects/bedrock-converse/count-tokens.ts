import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asCount } from '../json-reading.ts';
import { modelOfHost, modelPath } from './bedrock-model.ts';
import { decodeBedrockError } from './decode-error.ts';
import { converseBody } from './encode-request.ts';

/** What counts of a Converse request. */
const counted = ['messages', 'system', 'toolConfig', 'additionalModelRequestFields'];

/**
 * `messages/count_tokens` by Bedrock's `CountTokens`: the body is that of Anthropic's wire, read by its codec, and the
 * answer is `{input_tokens}`. The API counts for models, not for their profiles.
 */
export function countTokensOperation(anthropicClient: ChatClientCodec): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      const request = anthropicClient.decodeRequest({
        body,
        model: host.model,
        stream: false,
        query: '',
        header: () => undefined,
      });
      const whole = converseBody(request, host, report);
      const converse: JsonObject = {};
      for (const name of counted) if (whole[name] !== undefined) converse[name] = whole[name];
      const { id, vendor, name } = modelOfHost(host);
      return {
        path: modelPath(vendor === '' ? id : `${vendor}.${name}`, 'count-tokens'),
        body: stringifyExact({ input: { converse } }),
      };
    },
    decodeAnswer(body) {
      const tokens = asCount(parseExactObject(body.toString('utf8'))?.inputTokens);
      if (tokens === undefined) {
        throw new GatewayError(
          'upstream_invalid',
          'The provider counted no tokens: its answer has no "inputTokens".',
        );
      }
      return { body: { input_tokens: tokens } };
    },
    decodeError: decodeBedrockError,
  };
}
