import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/**
 * Reads a modelled endpoint's body and checks it against the rules of its dialect, after every plugin has had
 * its say. Bodies of other endpoints stay unread. A promise only when the body has not come yet. Throws `invalid_json` or `invalid_request` with the field.
 */
export function checkRequest(exchange: Exchange, strictByDefault: boolean): Promise<void> | undefined {
  const { body, endpoint } = exchange;
  if (!endpoint.modelled) return undefined;
  if (!body.loaded) return body.load().then(() => check(exchange, strictByDefault));
  check(exchange, strictByDefault);
  return undefined;
}

function check(exchange: Exchange, strictByDefault: boolean): void {
  const { body, endpoint, facts } = exchange;
  const { json } = body;
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new GatewayError(
      'invalid_json',
      body.bytes.length === 0
        ? 'The request has no body. Send a JSON object.'
        : 'The request body is no JSON object.',
    );
  }
  const call = exchange.dialect.readCall?.(exchange.path);
  const model = call === undefined ? json['model'] : call.model;
  facts.modelRequested = typeof model === 'string' ? model : '';
  facts.stream = call === undefined ? json['stream'] === true : call.stream;
  const issue = exchange.dialect.validateRequest(endpoint.id, json, isStrict(exchange, strictByDefault));
  if (issue) throw new GatewayError('invalid_request', issue.message, { param: issue.param });
}

/** OpenAI compliance: the header decides (both spellings that clients use), else the plugin's option. */
export function isStrict(exchange: Exchange, byDefault: boolean): boolean {
  const header =
    exchange.service('strict-open-ai-compliance') ?? exchange.service('strict-openai-compliance');
  return header === undefined ? byDefault : header.toLowerCase() !== 'false';
}
