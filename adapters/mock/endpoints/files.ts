import { headerValue } from '../../../core/ports/header-list.ts';
import { bytesAnswer, jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockContext, MockRequest } from '../context.ts';
import { missing, pageLimit } from '../json-value.ts';
import { parseMultipart } from '../multipart.ts';
import { invalid, MockProblem, unknownId } from '../problem.ts';

/** Files on one page, when nobody says otherwise and at most. */
const maxPage = 10_000;

/** GET /files, all of them or those of one `purpose`, newest first, a page at a time. */
export function listFiles({ query }: MockRequest, context: MockContext): MockAnswer {
  const after = query.get('after') ?? undefined;
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "Invalid 'order': expected asc or desc.");
  const page = context.files.page({
    ...{ purpose: query.get('purpose') ?? undefined, after },
    limit: pageLimit(query, 'limit', { fallback: maxPage, most: maxPage }),
    newestFirst: order === 'desc',
  });
  if (page === undefined) throw unknownId('File object', after ?? '');
  const { files, hasMore } = page;
  return jsonAnswer({
    ...{ data: files, object: 'list' },
    ...{ first_id: files[0]?.id ?? null, last_id: files.at(-1)?.id ?? null, has_more: hasMore },
  });
}

/** POST /files, multipart with `file` and `purpose`. */
export function uploadFile(request: MockRequest, context: MockContext): MockAnswer {
  const bytes = request.body.held;
  if (bytes === undefined) throw new MockProblem(413, 'The mock provider keeps files of at most 32 MiB.');
  const type = headerValue(request.headers, 'content-type') ?? '';
  const parts = parseMultipart(type, bytes);
  const file = parts.find((part) => part.name === 'file' && part.filename !== undefined);
  if (file === undefined) throw missing('file');
  const purpose = parts.find((part) => part.name === 'purpose')?.content.toString('utf8');
  if (purpose === undefined || purpose === '') throw missing('purpose');
  const record = context.files.add({
    id: context.newId('file-'),
    filename: file.filename ?? '',
    purpose: purpose.slice(0, 100),
    // A copy of its own, so that the rest of the body can be freed.
    content: Buffer.from(file.content),
    createdAt: context.nowSeconds(),
  });
  return jsonAnswer(record);
}

/** GET /files/{id}. */
export function getFile(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  const record = context.files.get(id);
  if (record === undefined) throw unknownId('File object', id);
  return jsonAnswer(record);
}

/** DELETE /files/{id}. */
export function deleteFile(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  if (!context.files.delete(id)) throw unknownId('File object', id);
  return jsonAnswer({ id, object: 'file', deleted: true });
}

/** GET /files/{id}/content: the bytes. */
export function fileContent(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  const content = context.files.content(id);
  if (content === undefined) throw unknownId('File object', id);
  return bytesAnswer('application/octet-stream', content);
}
