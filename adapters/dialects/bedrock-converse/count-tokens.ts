import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { TokenCounting } from '../count-tokens.ts';
import { stringifyExact } from '../exact-json.ts';
import { modelOfHost, modelPath } from './bedrock-model.ts';
import { decodeBedrockError } from './decode-error.ts';
import { converseBody } from './encode-request.ts';

/** What counts of a Converse request. */
const counted = ['messages', 'system', 'toolConfig', 'additionalModelRequestFields'];

/** Bedrock's `CountTokens`. It counts for models, not for their profiles. */
export const bedrockTokenCounting: TokenCounting = {
  encode(request, host, report) {
    const whole = converseBody(request, host, report);
    const converse: JsonObject = {};
    for (const name of counted) if (whole[name] !== undefined) converse[name] = whole[name];
    const { id, vendor, name } = modelOfHost(host);
    return {
      path: modelPath(vendor === '' ? id : `${vendor}.${name}`, 'count-tokens'),
      body: stringifyExact({ input: { converse } }),
    };
  },
  member: 'inputTokens',
  decodeError: decodeBedrockError,
};
