import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asCount, asObject, asText } from '../json-reading.ts';
import { modelOfHost } from './bedrock-model.ts';
import { decodeBedrockError } from './decode-error.ts';
import { answerObject, cannotAsk, noAnswer, RequestMembers, unknownModel } from './invoke.ts';

/**
 * Reranking by Cohere's and Amazon's models through `InvokeModel`. The documents that `return_documents` asks for are
 * those of the request: the models send none back.
 */
export const rerankOperation: OperationCodec = {
  encodeRequest(body, host, report) {
    const { vendor, name } = modelOfHost(host);
    if (!name.startsWith('rerank') || (vendor !== 'cohere' && vendor !== 'amazon'))
      throw unknownModel(host, 'reranking');
    const members = new RequestMembers(body);
    members.take('return_documents');
    const query = asText(members.take('query'));
    if (query === undefined) throw cannotAsk('"query" must be a text.', 'query');
    const documents = readDocuments(members.take('documents'));
    const request: JsonObject = { query, documents, ...members.takeAll(['top_n']) };
    if (vendor === 'cohere') {
      Object.assign(request, { api_version: 2 }, members.takeAll(['max_tokens_per_doc']));
    }
    return members.invoke(request, host, report);
  },
  decodeAnswer(body, _contentType, request) {
    const answer = answerObject(body);
    if (!Array.isArray(answer.results)) throw noAnswer('it has no "results"');
    const documents = request.return_documents === true ? asArray(request.documents) : undefined;
    const results = asArray(answer.results).flatMap((value) => {
      const result = asObject(value);
      const index = asCount(result?.index);
      if (result === undefined || index === undefined) return [];
      const told: JsonObject = { index, relevance_score: result.relevance_score ?? result.relevanceScore };
      const document = documents?.[index];
      if (document !== undefined)
        told.document = typeof document === 'string' ? { text: document } : document;
      return [told];
    });
    const told: JsonObject = { ...answer, model: request.model, results };
    return { body: told };
  },
  decodeError: decodeBedrockError,
};

/** Texts, or objects whose `text` counts; other objects are given as the JSON that they are. */
function readDocuments(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0)
    throw cannotAsk('"documents" must be a list with at least one document.', 'documents');
  return value.map((document: unknown, at) => {
    if (typeof document === 'string') return document;
    const members = asObject(document);
    if (members === undefined)
      throw cannotAsk(`documents[${at}] must be a text or an object.`, `documents[${at}]`);
    return asText(members.text) ?? stringifyExact(members);
  });
}
