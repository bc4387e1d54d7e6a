import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asObject } from '../json-reading.ts';
import { modelPath } from './bedrock-model.ts';

/**
 * The members of an OpenAI-shaped request that have not been used yet. What nobody takes is reported; what stands under
 * `provider_options` is the caller's wish in the model's own words.
 */
export class RequestMembers {
  readonly #rest: JsonObject;
  readonly #own: JsonObject;

  constructor(body: JsonObject) {
    this.#rest = { ...body };
    delete this.#rest.model;
    this.#own = asObject(asObject(this.take('provider_options'))?.['bedrock-converse']) ?? {};
  }

  /** The member, which counts as used from now on; null is none. */
  take(name: string): unknown {
    const value = this.#rest[name];
    delete this.#rest[name];
    return value ?? undefined;
  }

  /** Those of the members that are given under their own name. */
  takeAll(names: readonly string[]): JsonObject {
    const taken: JsonObject = {};
    for (const name of names) {
      const value = this.take(name);
      if (value !== undefined) taken[name] = value;
    }
    return taken;
  }

  /** `InvokeModel` with this body and the caller's own words; the members that are left are reported. */
  invoke(body: JsonObject, host: HostFacts, report: EncodeReport): EncodedRequest {
    for (const [name, value] of Object.entries(this.#rest)) {
      if (value !== undefined && value !== null) report.drop(name);
    }
    return { path: modelPath(host.model, 'invoke'), body: stringifyExact({ ...body, ...this.#own }) };
  }
}

/** The request cannot be said to this model. */
export function cannotAsk(message: string, param: string): GatewayError {
  return new GatewayError('invalid_request', message, { param });
}

/** The refusal of a model that does something else, or whose id does not tell what it does. */
export function unknownModel(host: HostFacts, operation: string): GatewayError {
  return cannotAsk(
    `The model "${host.model}" is not known to have ${operation} on Bedrock. Name a model that has, or say with aws_bedrock_model which model stands behind this id.`,
    'model',
  );
}

/** The JSON object of an answer; throws for anything else. */
export function answerObject(body: Buffer): JsonObject {
  const answer = parseExactObject(body.toString('utf8'));
  if (answer === undefined) throw noAnswer('it is no JSON object');
  return answer;
}

/** The provider's answer is not the one of its model. */
export function noAnswer(reason: string): GatewayError {
  return new GatewayError('upstream_invalid', `The provider's answer cannot be read: ${reason}.`);
}
