import { Type, type TSchema } from 'typebox';
import { component, listOf, oneOf, openObject, orNull, unixSeconds } from './operation.ts';

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
