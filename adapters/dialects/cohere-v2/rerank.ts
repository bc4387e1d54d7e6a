import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { decodeCohereError } from './decode-error.ts';
import { decodeUsage } from './usage.ts';

const same = ['query', 'top_n', 'max_tokens_per_doc', 'priority'];
const handled: ReadonlySet<string> = new Set([
  ...same,
  ...['model', 'documents', 'rank_fields', 'return_documents', 'provider_options'],
]);

/** Rerank at `POST /v2/rerank`: https://docs.cohere.com/reference/rerank */
export const cohereRerank: OperationCodec = {
  encodeRequest(body, host, report) {
    const wire: JsonObject = { model: host.model };
    for (const name of same) if (body[name] !== undefined) wire[name] = body[name];
    wire.documents = encodeDocuments(body, report);
    for (const [name, value] of Object.entries(body))
      if (!handled.has(name) && value !== undefined && value !== null) report.drop(name);
    applyQuirks(wire, host.quirks, report);
    Object.assign(wire, asObject(asObject(body.provider_options)?.['cohere-v2']));
    return { path: host.quirks.paths?.rerank ?? '/v2/rerank', body: stringifyExact(wire) };
  },
  decodeAnswer(body, _contentType, request) {
    return decodeRerank(body, request);
  },
  decodeError: decodeCohereError,
};

/** The wire takes texts: objects are written as YAML, as its documentation advises, with the fields to rank by. */
function encodeDocuments(body: JsonObject, report: EncodeReport): unknown {
  const { documents } = body;
  if (!Array.isArray(documents)) {
    throw new GatewayError('invalid_request', 'documents must be an array of texts or objects.', {
      param: 'documents',
    });
  }
  const fields = asArray(body.rank_fields).filter((name) => typeof name === 'string');
  if (fields.length > 0) report.emulate('rank_fields');
  return documents.map((document: unknown) => {
    const object = asObject(document);
    if (object === undefined) return document;
    const names = fields.length > 0 ? fields : Object.keys(object);
    if (names.length === 1 && names[0] === 'text' && typeof object.text === 'string') return object.text;
    report.emulate('documents');
    return names
      .filter((name) => object[name] !== undefined)
      .map((name) => `${name}: ${yamlValue(object[name])}`)
      .join('\n');
  });
}

/** A value of one line: every JSON value is YAML, too, and a text without line ends needs no quotes for a model. */
function yamlValue(value: unknown): string {
  return typeof value === 'string' && !/[\r\n]/.test(value) ? value : JSON.stringify(value, exact);
}

function exact(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}

function decodeRerank(body: Buffer, request: JsonObject): OperationAnswer {
  const json = parseExactObject(body.toString('utf8'));
  if (json === undefined || !Array.isArray(json.results)) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no Cohere ranking: "results" was expected.',
    );
  }
  const model = asText(request.model) ?? '';
  const documents = request.return_documents === true ? asArray(request.documents) : [];
  const usage = decodeUsage(json.meta);
  const answer: JsonObject = {
    id: asText(json.id) ?? '',
    object: 'list',
    model,
    results: json.results.map((result: unknown) => withDocument(asObject(result) ?? {}, documents)),
  };
  if (json.meta !== undefined) answer.meta = json.meta;
  const counted: JsonObject = {};
  const searches = asCount(asObject(asObject(json.meta)?.billed_units)?.search_units);
  if (searches !== undefined) counted.search_units = searches;
  if (usage !== undefined) {
    counted.prompt_tokens = usage.promptTokens;
    counted.total_tokens = usage.totalTokens;
  }
  if (Object.keys(counted).length > 0) answer.usage = counted;
  return usage === undefined ? { body: answer, model } : { body: answer, model, usage };
}

/** The second version of the wire does not repeat the documents: they are those of the request. */
function withDocument(result: JsonObject, documents: readonly unknown[]): JsonObject {
  const document = documents[asCount(result.index) ?? -1];
  if (document === undefined || result.document !== undefined) return result;
  return { ...result, document: typeof document === 'string' ? { text: document } : document };
}
