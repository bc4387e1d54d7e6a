import {
  bytes,
  component,
  type GatewayOperation,
  inPath,
  inQuery,
  json,
  listOf,
  oneOf,
  openObject,
  orNull,
  unixSeconds,
} from './operation.ts';
import { type TSchema, Type } from 'typebox';

const created = 1795212000;

const paging = [
  inQuery('after', 'The last id of the page before.', { type: 'string' }),
  inQuery('limit', 'How many.', { type: 'integer', minimum: 1, default: 20 }),
];

const listedModel = { id: 'gpt-5-mini', object: 'model', created, owned_by: 'openai' };

const models: readonly GatewayOperation[] = [
  {
    endpoint: 'models',
    id: 'models.list',
    method: 'GET',
    path: '/models',
    summary: 'The models of the provider, or of all of them',
    description:
      'Without a provider, and with the header `fetch-integrated-models: true`: the catalogue of all configured providers, with models named `@slug/model`.',
    response: [json('ModelList', { object: 'list', data: [listedModel] })],
  },
  {
    endpoint: 'models',
    id: 'models.get',
    method: 'GET',
    path: '/models/{model}',
    summary: 'One model of the provider',
    parameters: [inPath('model', 'gpt-5-mini', 'A model of the provider.')],
    response: [json('Model', listedModel)],
  },
];

const file = {
  id: 'file-1',
  object: 'file',
  bytes: 120,
  created_at: created,
  filename: 'train.jsonl',
  purpose: 'fine-tune',
  status_details: null,
};
const fileId = inPath('file_id', 'file-1', 'A file of the provider.');

const files: readonly GatewayOperation[] = [
  {
    endpoint: 'files',
    id: 'files.list',
    method: 'GET',
    path: '/files',
    summary: 'Files of the provider',
    parameters: [inQuery('purpose', 'Those for this purpose.', { type: 'string' })],
    response: [json('FileList', { object: 'list', data: [file] })],
  },
  {
    endpoint: 'files',
    id: 'files.create',
    method: 'POST',
    path: '/files',
    summary: 'Uploads a file',
    request: [{ ...json('FileUpload', undefined), type: 'multipart/form-data' }],
    response: [json('File', file)],
  },
  {
    endpoint: 'files',
    id: 'files.get',
    method: 'GET',
    path: '/files/{file_id}',
    summary: 'One file',
    parameters: [fileId],
    response: [json('File', file)],
  },
  {
    endpoint: 'files',
    id: 'files.delete',
    method: 'DELETE',
    path: '/files/{file_id}',
    summary: 'Deletes a file',
    parameters: [fileId],
    response: [json('Deleted', { id: 'file-1', object: 'file', deleted: true })],
  },
  {
    endpoint: 'files',
    id: 'files.content',
    method: 'GET',
    path: '/files/{file_id}/content',
    summary: 'Content of a file',
    parameters: [fileId],
    response: [bytes('application/octet-stream')],
  },
];

const batch = {
  id: 'batch_1',
  object: 'batch',
  endpoint: '/v1/chat/completions',
  input_file_id: 'file-1',
  completion_window: '24h',
  status: 'validating',
  created_at: created,
};
const batchId = inPath('batch_id', 'batch_1', 'A batch of the provider.');

const batches: readonly GatewayOperation[] = [
  {
    endpoint: 'batches',
    id: 'batches.create',
    method: 'POST',
    path: '/batches',
    summary: 'Creates a batch',
    request: [
      json('BatchRequest', {
        input_file_id: 'file-1',
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      }),
    ],
    response: [json('Batch', batch)],
  },
  {
    endpoint: 'batches',
    id: 'batches.list',
    method: 'GET',
    path: '/batches',
    summary: 'Batches of the provider',
    parameters: paging,
    response: [json('BatchList', { object: 'list', data: [batch], has_more: false })],
  },
  {
    endpoint: 'batches',
    id: 'batches.get',
    method: 'GET',
    path: '/batches/{batch_id}',
    summary: 'One batch',
    parameters: [batchId],
    response: [json('Batch', batch)],
  },
  {
    endpoint: 'batches',
    id: 'batches.cancel',
    method: 'POST',
    path: '/batches/{batch_id}/cancel',
    summary: 'Cancels a batch',
    parameters: [batchId],
    response: [json('Batch', { ...batch, status: 'cancelling' })],
  },
  {
    endpoint: 'batches',
    id: 'batches.output',
    method: 'GET',
    path: '/batches/{batch_id}/output',
    summary: 'Output lines of a batch',
    description:
      'If the host has no such path: the output file of the batch, followed by its error file. 409 while the batch is in progress, 404 if it has no output.',
    parameters: [batchId],
    response: [bytes('application/octet-stream')],
  },
];

const job = {
  id: 'ftjob-1',
  object: 'fine_tuning.job',
  created_at: created,
  finished_at: null,
  error: null,
  fine_tuned_model: null,
  hyperparameters: { n_epochs: 'auto' },
  model: 'gpt-4o-mini',
  organization_id: 'org-1',
  result_files: [],
  status: 'queued',
  trained_tokens: null,
  training_file: 'file-1',
  validation_file: null,
  integrations: [],
  seed: 7,
};
const jobId = inPath('job_id', 'ftjob-1', 'A job of the provider.');

const jobs: readonly GatewayOperation[] = [
  {
    endpoint: 'fine_tuning.jobs',
    id: 'fine_tuning.jobs.list',
    method: 'GET',
    path: '/fine_tuning/jobs',
    summary: 'Fine-tuning jobs of the provider',
    parameters: paging,
    response: [json('FineTuningJobList', { object: 'list', data: [job], has_more: false })],
  },
  {
    endpoint: 'fine_tuning.jobs',
    id: 'fine_tuning.jobs.create',
    method: 'POST',
    path: '/fine_tuning/jobs',
    summary: 'Creates a fine-tuning job',
    request: [json('FineTuningJobRequest', { model: 'gpt-4o-mini', training_file: 'file-1' })],
    response: [json('FineTuningJob', job)],
  },
  {
    endpoint: 'fine_tuning.jobs',
    id: 'fine_tuning.jobs.get',
    method: 'GET',
    path: '/fine_tuning/jobs/{job_id}',
    summary: 'One job',
    parameters: [jobId],
    response: [json('FineTuningJob', job)],
  },
  {
    endpoint: 'fine_tuning.jobs',
    id: 'fine_tuning.jobs.cancel',
    method: 'POST',
    path: '/fine_tuning/jobs/{job_id}/cancel',
    summary: 'Cancels a fine-tuning job',
    parameters: [jobId],
    response: [json('FineTuningJob', { ...job, status: 'cancelled' })],
  },
];

/** Operations on models, files, batches and jobs that a provider stores. */
export const jobOperations: readonly (readonly [tag: string, operations: readonly GatewayOperation[]])[] = [
  ['Models', models],
  ['Files', files],
  ['Batches', batches],
  ['Fine-tuning', jobs],
];

const Tracker = Type.Object({
  project: Type.String(),
  name: Type.Optional(orNull(Type.String(), 'Default: the id of the job.')),
  entity: Type.Optional(orNull(Type.String(), 'Default: that of the tracking key.')),
  tags: Type.Optional(Type.Array(Type.String())),
});

const JobIntegration = Type.Object({ type: Type.Literal('tracker'), tracker: Tracker });

const Hyperparameters = Type.Object({
  n_epochs: Type.Union([Type.Literal('auto'), Type.Integer({ minimum: 1, maximum: 50 })], {
    default: 'auto',
    description: '1 to 50, or `auto`: by the size of the data.',
  }),
});

const Job = Type.Object({
  id: Type.String(),
  object: Type.Literal('fine_tuning.job'),
  created_at: unixSeconds('Time of creation.'),
  finished_at: orNull(Type.Integer(), 'Unix seconds; null while it runs.'),
  estimated_finish: Type.Optional(orNull(Type.Integer(), 'Unix seconds; null when it does not run.')),
  error: orNull(
    Type.Object({ code: Type.String(), message: Type.String(), param: orNull(Type.String()) }),
    'Why it failed.',
  ),
  fine_tuned_model: orNull(Type.String(), 'Null while it runs.'),
  hyperparameters: Hyperparameters,
  model: Type.String({ description: 'Base model of the job.' }),
  organization_id: Type.String(),
  result_files: Type.Array(Type.String()),
  status: oneOf(['validating_files', 'queued', 'running', 'succeeded', 'failed', 'cancelled']),
  trained_tokens: orNull(Type.Integer(), 'Tokens to be paid; null while it runs.'),
  training_file: Type.String(),
  validation_file: orNull(Type.String()),
  integrations: Type.Optional(orNull(Type.Array(component('FineTuningIntegration'), { maxItems: 5 }))),
  seed: Type.Integer(),
});

const JobRequest = Type.Object({
  model: Type.String(),
  training_file: Type.String(),
  validation_file: Type.Optional(orNull(Type.String())),
  hyperparameters: Type.Optional(Hyperparameters),
  integrations: Type.Optional(orNull(Type.Array(component('FineTuningIntegration'), { maxItems: 5 }))),
  seed: Type.Optional(orNull(Type.Integer())),
});

const FileRecord = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  bytes: Type.Integer({ minimum: 0 }),
  created_at: unixSeconds('Time of the upload.'),
  filename: Type.String(),
  purpose: Type.Optional(Type.String()),
  status_details: Type.Optional(orNull(Type.String())),
});

const Text = Type.Optional(Type.String());

/** Batches pass through unread, so the schema does not specify the members of single providers. */
const Batch = openObject({
  id: Text,
  object: Text,
  endpoint: Text,
  input_file_id: Text,
  completion_window: Text,
  status: Text,
  created_at: Type.Optional(unixSeconds('Time of creation.')),
  output_file_id: Type.Optional(orNull(Type.String())),
  error_file_id: Type.Optional(orNull(Type.String())),
});

/** Files, batches and fine-tuning jobs, by the names of the components. */
export const jobSchemas: Readonly<Record<string, TSchema>> = {
  FineTuningJob: Job,
  FineTuningJobRequest: JobRequest,
  FineTuningIntegration: JobIntegration,
  FineTuningJobList: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(component('FineTuningJob')),
    has_more: Type.Boolean(),
  }),
  File: FileRecord,
  FileList: listOf(component('File')),
  FileUpload: Type.Object({
    purpose: Type.String({ description: '`batch`, `fine-tune`, `assistants` …' }),
    file: Type.String({ format: 'binary' }),
  }),
  Deleted: Type.Object({ id: Type.String(), object: Type.String(), deleted: Type.Boolean() }),
  Batch,
  BatchRequest: Type.Object({
    input_file_id: Type.String(),
    endpoint: Type.String({ description: 'Endpoint of all lines: `/v1/chat/completions` …' }),
    completion_window: Type.String({ description: '`24h`.' }),
  }),
  BatchList: openObject({ data: Type.Optional(Type.Array(component('Batch'))) }),
};
