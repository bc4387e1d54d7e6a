import { invalid, jsonAnswer, type MockAnswer, countTokens } from '../answer.ts';
import {
  type JsonObject,
  member,
  missing,
  type MockContext,
  type MockRequest,
  optionalBoolean,
  optionalInteger,
  requiredModel,
  requiredText,
  wrongType,
} from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const maxDocuments = 1000;

/** POST /rerank: documents by their share of the query's words. */
export function answerRerank(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const model = requiredModel(body);
  const query = requiredText(body, 'query');
  const documents = readDocuments(body);
  const top = optionalInteger(body, 'top_n', 1, Number.MAX_SAFE_INTEGER) ?? documents.length;
  optionalInteger(body, 'max_chunks_per_doc', 1, Number.MAX_SAFE_INTEGER);
  const withText = optionalBoolean(body, 'return_documents', false);
  const wanted = wordsOf(query);
  const results = documents
    .map((text, index) => ({ index, text, relevance_score: relevance(wanted, text) }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, top)
    .map(({ index, text, relevance_score }) =>
      withText ? { index, relevance_score, document: { text } } : { index, relevance_score },
    );
  const tokens = documents.reduce((sum, text) => sum + countTokens(text), countTokens(query));
  return jsonAnswer({
    id: context.newId('rerank-'),
    model,
    results,
    meta: { api_version: { version: '2' }, billed_units: { search_units: 1 } },
    ...(request.faults.usage === 'none' ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
  });
}

function readDocuments(body: JsonObject): string[] {
  const documents = member(body, 'documents');
  if (documents === undefined) throw missing('documents');
  if (!Array.isArray(documents)) throw wrongType('documents', 'an array', documents);
  if (documents.length === 0 || documents.length > maxDocuments) {
    throw invalid('documents', `Invalid 'documents': expected 1 to ${maxDocuments} items.`);
  }
  return documents.map((document: unknown, index) => {
    const text = isJsonObject(document) ? document['text'] : document;
    if (typeof text !== 'string') throw wrongType(`documents[${index}]`, 'a string', document);
    return text;
  });
}

/** Share of the query's words in the document, from 0 to 1. */
function relevance(wanted: ReadonlySet<string>, text: string): number {
  if (wanted.size === 0) return 0;
  const held = wordsOf(text);
  let found = 0;
  for (const word of wanted) if (held.has(word)) found += 1;
  return Number((found / wanted.size).toFixed(6));
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
}
