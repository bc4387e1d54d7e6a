import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { SentBody } from './build-request.ts';

/**
 * Checks what a try is about to send to a modelled endpoint against the rules of its dialect, after plugins and config
 * have had their say, and learns what is asked for. Throws `invalid_json` or `invalid_request` with the field.
 */
export function checkRequest(exchange: Exchange, body: SentBody, strictByDefault: boolean): void {
  const { endpoint, facts } = exchange;
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
