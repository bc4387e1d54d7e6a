import { answerOf, answerTexts, invalid, type MockAnswer } from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const maxDocuments = 1000;

/** POST /rerank: documents by their share of the query's words. */
export function answerRerank(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const model = fields.requiredModel(body);
  const query = fields.requiredText(body, 'query');
  const documents = readDocuments(body);
  const top = fields.optionalInteger(body, 'top_n', 1, Number.MAX_SAFE_INTEGER) ?? documents.length;
  fields.optionalInteger(body, 'max_chunks_per_doc', 1, Number.MAX_SAFE_INTEGER);
  const withText = fields.optionalBoolean(body, 'return_documents', false);
  const wanted = wordsOf(query);
  const results = documents
    .map((text, index) => ({ index, text, relevance_score: relevance(wanted, text) }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, top)
    .map(({ index, text, relevance_score }) =>
      withText ? { index, relevance_score, document: { text } } : { index, relevance_score },
    );
  const tokens = documents.reduce(
    (sum, text) => sum + answerTexts.countTokens(text),
    answerTexts.countTokens(query),
  );
  return answerOf.json({
    id: context.newId('rerank-'),
    model,
    results,
    meta: { api_version: { version: '2' }, billed_units: { search_units: 1 } },
    ...(request.faults.usage === 'none' ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
  });
}

function readDocuments(body: JsonObject): string[] {
  const documents = fields.member(body, 'documents');
  if (documents === undefined) throw fields.missing('documents');
  if (!Array.isArray(documents)) throw fields.wrongType('documents', 'an array', documents);
  if (documents.length === 0 || documents.length > maxDocuments) {
    throw invalid('documents', `Invalid 'documents': expected 1 to ${maxDocuments} items.`);
  }
  return documents.map((document: unknown, index) => {
    const text = isJsonObject(document) ? document['text'] : document;
    if (typeof text !== 'string') throw fields.wrongType(`documents[${index}]`, 'a string', document);
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
