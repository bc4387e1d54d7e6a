import type { ChatClientCodec, EncodedRequest } from '../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../core/dialects/host-facts.ts';
import type { OperationCodec } from '../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { parseExactObject } from './exact-json.ts';
import { asCount } from './json-reading.ts';

/** How a host counts the tokens of a request. */
export interface TokenCounting {
  encode(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest;
  /** Member of the answer that holds the number. */
  readonly member: string;
  readonly decodeError: OperationCodec['decodeError'];
}

/** `messages/count_tokens` by another host's count: the body is that of Anthropic's wire, read by `client`; the answer is `{input_tokens}`. */
export function countTokensOperation(client: ChatClientCodec, host: TokenCounting): OperationCodec {
  const { member, decodeError } = host;
  return {
    encodeRequest(body, facts, report) {
      const { model } = facts;
      const call = { body, model, stream: false, query: '', header: () => undefined };
      return host.encode(client.decodeRequest(call), facts, report);
    },
    decodeAnswer(body) {
      const tokens = asCount(parseExactObject(body.toString('utf8'))?.[member]);
      if (tokens !== undefined) return { body: { input_tokens: tokens } };
      throw new GatewayError(
        'upstream_invalid',
        `The provider counted no tokens: its answer has no "${member}".`,
        { source: 'provider' },
      );
    },
    decodeError,
  };
}
