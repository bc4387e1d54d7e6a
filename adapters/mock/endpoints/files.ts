import { headerValue } from '../../../core/ports/header-list.ts';
import { bytesAnswer, jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockContext, MockRequest } from '../context.ts';
import { missing } from '../json-value.ts';
import { parseMultipart } from '../multipart.ts';
import { MockProblem, unknownId } from '../problem.ts';

/** GET /files, all of them or those of one `purpose`. */
export function listFiles(request: MockRequest, context: MockContext): MockAnswer {
  const purpose = request.query.get('purpose') ?? undefined;
  return jsonAnswer({ data: context.files.list(purpose), object: 'list' });
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
