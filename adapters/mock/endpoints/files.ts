import { headerValue } from '../../../core/ports/header-list.ts';
import { answerOf, invalid, type MockAnswer, MockProblem, unknownId } from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import type { FineTuningJob, JobIntegration, JobStatus } from '../stores.ts';
import { isJsonObject } from '../../../core/base/json.ts';

/** The fine-tuning jobs API. */
export const jobs = { list: listJobs, get: getJob, create: createJob, cancel: cancelJob };

/** The files API. */
export const files = {
  list: listFiles,
  upload: uploadFile,
  get: getFile,
  delete: deleteFile,
  content: fileContent,
};

const defaultLimit = 20;
const maxLimit = 100;
const maxIntegrations = 5;
const ended: readonly JobStatus[] = ['succeeded', 'failed', 'cancelled'];

/** GET /fine_tuning/jobs, newest first, a page at a time. */
function listJobs({ query }: MockRequest, context: MockContext): MockAnswer {
  const after = query.get('after') ?? undefined;
  const limit = fields.pageLimit(query, 'limit', { fallback: defaultLimit, most: maxLimit });
  const page = context.jobs.page(after, limit);
  if (page === undefined) throw unknownId('fine-tuning job', after ?? '');
  return answerOf.json({ object: 'list', data: page.jobs, has_more: page.hasMore });
}

/** GET /fine_tuning/jobs/{id}. */
function getJob(request: MockRequest, context: MockContext): MockAnswer {
  return answerOf.json(known(request, context));
}

/** POST /fine_tuning/jobs: the job stays in `validating_files` until it is cancelled. */
function createJob(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const model = fields.requiredModel(body);
  const job = context.jobs.add({
    id: context.newId('ftjob-'),
    created_at: context.nowSeconds(),
    model,
    training_file: knownFile('training_file', fields.requiredText(body, 'training_file'), context),
    validation_file: readValidationFile(body, context),
    hyperparameters: { n_epochs: readEpochs(body) },
    integrations: readIntegrations(body),
    seed: fields.optionalInteger(body, 'seed', 0, 2_147_483_647) ?? 42,
  });
  return answerOf.json(job);
}

/** POST /fine_tuning/jobs/{id}/cancel; a job that has ended cannot be cancelled. */
function cancelJob(request: MockRequest, context: MockContext): MockAnswer {
  const job = known(request, context);
  if (ended.includes(job.status)) {
    throw invalid('id', `Job '${job.id}' cannot be cancelled: it has ${job.status}.`, 'invalid_state');
  }
  return answerOf.json(context.jobs.cancel(job, context.nowSeconds()));
}

function known(request: MockRequest, context: MockContext): FineTuningJob {
  const id = request.params[0] ?? '';
  const job = context.jobs.get(id);
  if (job === undefined) throw unknownId('fine-tuning job', id);
  return job;
}

function knownFile(param: string, id: string, context: MockContext): string {
  if (context.files.get(id) === undefined) {
    throw invalid(param, `Invalid '${param}': there is no file '${id.slice(0, 200)}'.`, 'file_not_found');
  }
  return id;
}

function readValidationFile(body: JsonObject, context: MockContext): string | null {
  const id = fields.optionalText(body, 'validation_file');
  return id === undefined ? null : knownFile('validation_file', id, context);
}

function readEpochs(body: JsonObject): number | 'auto' {
  const given = fields.member(body, 'hyperparameters');
  if (given === undefined) return 'auto';
  if (!isJsonObject(given)) throw fields.wrongType('hyperparameters', 'an object', given);
  const epochs = fields.member(given, 'n_epochs') ?? 'auto';
  if (epochs === 'auto') return epochs;
  if (typeof epochs === 'number' && Number.isInteger(epochs) && epochs >= 1 && epochs <= 50) return epochs;
  throw invalid(
    'hyperparameters.n_epochs',
    "Invalid 'hyperparameters.n_epochs': expected 'auto' or an integer from 1 to 50.",
  );
}

function readIntegrations(body: JsonObject): readonly JobIntegration[] | null {
  const list = fields.member(body, 'integrations');
  if (list === undefined) return null;
  if (!Array.isArray(list)) throw fields.wrongType('integrations', 'an array', list);
  if (list.length > maxIntegrations) {
    throw invalid('integrations', `Invalid 'integrations': at most ${maxIntegrations} items.`);
  }
  return list.map((item: unknown, index) => {
    const place = `integrations[${index}]`;
    if (!isJsonObject(item)) throw fields.wrongType(place, 'an object', item);
    if (item['type'] !== 'tracker') {
      throw invalid(`${place}.type`, `Invalid '${place}.type': expected 'tracker'.`);
    }
    const tracker = fields.member(item, 'tracker');
    if (!isJsonObject(tracker)) throw fields.missing(`${place}.tracker`);
    return {
      type: 'tracker',
      tracker: {
        project: fields.requiredText(tracker, 'project'),
        name: fields.optionalText(tracker, 'name') ?? null,
        entity: fields.optionalText(tracker, 'entity') ?? null,
        tags: fields.textList(tracker, 'tags', 50),
      },
    };
  });
}

const maxParts = 64;
const maxHeadBytes = 8192;

/** One part of a multipart body. */
interface MultipartPart {
  readonly name: string;
  /** Undefined for a plain field. */
  readonly filename: string | undefined;
  /** Shares memory with the body. */
  readonly content: Buffer;
}

/** Reads a `multipart/form-data` body. Throws a 400 for another type, a missing boundary or a torn body. */
function parseMultipart(contentType: string, body: Buffer): MultipartPart[] {
  const boundary = /^multipart\/form-data\s*;.*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(
    contentType,
  );
  if (boundary === null) throw broken('expected multipart/form-data with a boundary');
  const delimiter = Buffer.from(`--${boundary[1] ?? boundary[2]}`);
  let at = body.indexOf(delimiter);
  if (at !== 0 && body.subarray(Math.max(0, at - 2), Math.max(0, at)).toString() !== '\r\n') {
    throw broken('the body does not begin with its boundary');
  }
  const next = Buffer.concat([Buffer.from('\r\n'), delimiter]);
  const parts: MultipartPart[] = [];
  for (;;) {
    at += delimiter.length;
    const after = body.subarray(at, at + 2).toString('latin1');
    if (after === '--') return parts;
    if (after !== '\r\n' || parts.length === maxParts) throw broken('a part is torn, or there are too many');
    const end = body.indexOf(next, at);
    if (end < 0) throw broken('the last boundary is missing');
    parts.push(readPart(body.subarray(at + 2, end)));
    at = end + 2;
  }
}

function readPart(part: Buffer): MultipartPart {
  const headEnd = part.indexOf('\r\n\r\n');
  if (headEnd < 0 || headEnd > maxHeadBytes) throw broken('a part has no end of its headers');
  const head = part.subarray(0, headEnd).toString('utf8');
  const disposition = /^content-disposition:.*$/im.exec(head)?.[0] ?? '';
  const name = /[;\s]name="([^"]*)"/i.exec(disposition)?.[1];
  if (name === undefined) throw broken('a part has no name');
  const filename = /[;\s]filename="([^"]*)"/i.exec(disposition)?.[1];
  return { name, filename, content: part.subarray(headEnd + 4) };
}

function broken(reason: string): MockProblem {
  return new MockProblem(400, `Could not read the multipart body: ${reason}.`, { code: 'invalid_multipart' });
}

/** Default and upper bound of files on one page. */
const maxPage = 10_000;

/** GET /files, all of them or those of one `purpose`, newest first, a page at a time. */
function listFiles({ query }: MockRequest, context: MockContext): MockAnswer {
  const after = query.get('after') ?? undefined;
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "Invalid 'order': expected asc or desc.");
  const page = context.files.page({
    purpose: query.get('purpose') ?? undefined,
    after,
    limit: fields.pageLimit(query, 'limit', { fallback: maxPage, most: maxPage }),
    newestFirst: order === 'desc',
  });
  if (page === undefined) throw unknownId('File object', after ?? '');
  const { files, hasMore } = page;
  return answerOf.json({
    data: files,
    object: 'list',
    first_id: files[0]?.id ?? null,
    last_id: files.at(-1)?.id ?? null,
    has_more: hasMore,
  });
}

/** POST /files, multipart with `file` and `purpose`. */
function uploadFile(request: MockRequest, context: MockContext): MockAnswer {
  const bytes = request.body.held;
  if (bytes === undefined) throw new MockProblem(413, 'The mock provider keeps files of at most 32 MiB.');
  const type = headerValue(request.headers, 'content-type') ?? '';
  const parts = parseMultipart(type, bytes);
  const file = parts.find((part) => part.name === 'file' && part.filename !== undefined);
  if (file === undefined) throw fields.missing('file');
  const purpose = parts.find((part) => part.name === 'purpose')?.content.toString('utf8');
  if (purpose === undefined || purpose === '') throw fields.missing('purpose');
  const record = context.files.add({
    id: context.newId('file-'),
    filename: file.filename ?? '',
    purpose: purpose.slice(0, 100),
    // A copy of its own, so that the rest of the body can be freed.
    content: Buffer.from(file.content),
    createdAt: context.nowSeconds(),
  });
  return answerOf.json(record);
}

/** GET /files/{id}. */
function getFile(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  const record = context.files.get(id);
  if (record === undefined) throw unknownId('File object', id);
  return answerOf.json(record);
}

/** DELETE /files/{id}. */
function deleteFile(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  if (!context.files.delete(id)) throw unknownId('File object', id);
  return answerOf.json({ id, object: 'file', deleted: true });
}

/** GET /files/{id}/content: the bytes. */
function fileContent(request: MockRequest, context: MockContext): MockAnswer {
  const id = request.params[0] ?? '';
  const content = context.files.content(id);
  if (content === undefined) throw unknownId('File object', id);
  return answerOf.bytes('application/octet-stream', content);
}
