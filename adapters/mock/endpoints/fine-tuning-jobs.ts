import { jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockContext, MockRequest } from '../context.ts';
import type { FineTuningJob, JobIntegration, JobStatus } from '../job-store.ts';
import {
  isObject,
  member,
  missing,
  optionalInteger,
  optionalText,
  pageLimit,
  requiredModel,
  requiredText,
  textList,
  wrongType,
  type JsonObject,
} from '../json-value.ts';
import { invalid, unknownId } from '../problem.ts';

const defaultLimit = 20;
const maxLimit = 100;
const maxIntegrations = 5;
const ended: readonly JobStatus[] = ['succeeded', 'failed', 'cancelled'];

/** GET /fine_tuning/jobs, newest first, a page at a time. */
export function listJobs({ query }: MockRequest, context: MockContext): MockAnswer {
  const after = query.get('after') ?? undefined;
  const limit = pageLimit(query, 'limit', { fallback: defaultLimit, most: maxLimit });
  const page = context.jobs.page(after, limit);
  if (page === undefined) throw unknownId('fine-tuning job', after ?? '');
  return jsonAnswer({ object: 'list', data: page.jobs, has_more: page.hasMore });
}

/** GET /fine_tuning/jobs/{id}. */
export function getJob(request: MockRequest, context: MockContext): MockAnswer {
  return jsonAnswer(known(request, context));
}

/** POST /fine_tuning/jobs: the job stays in `validating_files` until it is cancelled. */
export function createJob(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const model = requiredModel(body);
  const job = context.jobs.add({
    id: context.newId('ftjob-'),
    created_at: context.nowSeconds(),
    model,
    training_file: knownFile('training_file', requiredText(body, 'training_file'), context),
    validation_file: readValidationFile(body, context),
    hyperparameters: { n_epochs: readEpochs(body) },
    integrations: readIntegrations(body),
    seed: optionalInteger(body, 'seed', 0, 2_147_483_647) ?? 42,
  });
  return jsonAnswer(job);
}

/** POST /fine_tuning/jobs/{id}/cancel; a job that has ended cannot be cancelled. */
export function cancelJob(request: MockRequest, context: MockContext): MockAnswer {
  const job = known(request, context);
  if (ended.includes(job.status)) {
    throw invalid('id', `Job '${job.id}' cannot be cancelled: it has ${job.status}.`, 'invalid_state');
  }
  return jsonAnswer(context.jobs.cancel(job, context.nowSeconds()));
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
  const id = optionalText(body, 'validation_file');
  return id === undefined ? null : knownFile('validation_file', id, context);
}

function readEpochs(body: JsonObject): number | 'auto' {
  const given = member(body, 'hyperparameters');
  if (given === undefined) return 'auto';
  if (!isObject(given)) throw wrongType('hyperparameters', 'an object', given);
  const epochs = member(given, 'n_epochs') ?? 'auto';
  if (epochs === 'auto') return epochs;
  if (typeof epochs === 'number' && Number.isInteger(epochs) && epochs >= 1 && epochs <= 50) return epochs;
  throw invalid(
    'hyperparameters.n_epochs',
    "Invalid 'hyperparameters.n_epochs': expected 'auto' or an integer from 1 to 50.",
  );
}

function readIntegrations(body: JsonObject): readonly JobIntegration[] | null {
  const list = member(body, 'integrations');
  if (list === undefined) return null;
  if (!Array.isArray(list)) throw wrongType('integrations', 'an array', list);
  if (list.length > maxIntegrations) {
    throw invalid('integrations', `Invalid 'integrations': at most ${maxIntegrations} items.`);
  }
  return list.map((item: unknown, index) => {
    const place = `integrations[${index}]`;
    if (!isObject(item)) throw wrongType(place, 'an object', item);
    if (item['type'] !== 'tracker') {
      throw invalid(`${place}.type`, `Invalid '${place}.type': expected 'tracker'.`);
    }
    const tracker = member(item, 'tracker');
    if (!isObject(tracker)) throw missing(`${place}.tracker`);
    return {
      type: 'tracker',
      tracker: {
        project: requiredText(tracker, 'project'),
        name: optionalText(tracker, 'name') ?? null,
        entity: optionalText(tracker, 'entity') ?? null,
        tags: textList(tracker, 'tags', 50),
      },
    };
  });
}
