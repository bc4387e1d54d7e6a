/** Creates an identifier with the prefix: `chatcmpl-` and 24 letters and digits. */
export type NewId = (prefix: string) => string;

const maxCreated = 1000;
/** Creation time of the oldest initial job: 2025-10-02T00:00:00Z. */
const seedTimeOfJobs = 1_759_363_200;
const seedsPerState = 8;

export type JobStatus = 'validating_files' | 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

/** An integration of a fine-tuning job with an experiment tracker. */
export interface JobIntegration {
  readonly type: 'tracker';
  readonly tracker: {
    readonly project: string;
    readonly name: string | null;
    readonly entity: string | null;
    readonly tags: readonly string[];
  };
}

/** A fine-tuning job, with exactly the fields of the specification. */
export interface FineTuningJob {
  readonly id: string;
  readonly object: 'fine_tuning.job';
  readonly created_at: number;
  readonly finished_at: number | null;
  readonly estimated_finish: number | null;
  readonly error: { readonly code: string; readonly message: string; readonly param: string | null } | null;
  readonly fine_tuned_model: string | null;
  readonly hyperparameters: { readonly n_epochs: number | 'auto' };
  readonly model: string;
  readonly organization_id: string;
  readonly result_files: readonly string[];
  readonly status: JobStatus;
  readonly trained_tokens: number | null;
  readonly training_file: string;
  readonly validation_file: string | null;
  readonly integrations: readonly JobIntegration[] | null;
  readonly seed: number;
}

/** Fields set by the creator of a job. */
type NewJob = Pick<
  FineTuningJob,
  | 'id'
  | 'created_at'
  | 'hyperparameters'
  | 'model'
  | 'training_file'
  | 'validation_file'
  | 'integrations'
  | 'seed'
>;

/** One page of jobs. */
interface JobPage {
  readonly jobs: readonly FineTuningJob[];
  readonly hasMore: boolean;
}

/**
 * The fine-tuning jobs of one mock provider: 48 initial ones, and at most 1000 created ones (the oldest are removed).
 */
export class JobStore {
  /** Newest first. */
  #jobs: FineTuningJob[] = seedJobs();
  #created = 0;

  /** The jobs after the one named (undefined when it does not exist), newest first. */
  page(after: string | undefined, limit: number): JobPage | undefined {
    const start = after === undefined ? 0 : this.#jobs.findIndex((job) => job.id === after) + 1;
    if (after !== undefined && start === 0) return undefined;
    return { jobs: this.#jobs.slice(start, start + limit), hasMore: this.#jobs.length > start + limit };
  }

  get(id: string): FineTuningJob | undefined {
    return this.#jobs.find((job) => job.id === id);
  }

  add(job: NewJob): FineTuningJob {
    const added = fromNew(job, 'validating_files');
    this.#jobs.unshift(added);
    this.#created += 1;
    if (this.#created > maxCreated) {
      this.#jobs.splice(maxCreated, 1);
      this.#created = maxCreated;
    }
    return added;
  }

  /** Marks a job as cancelled and returns it. */
  cancel(job: FineTuningJob, at: number): FineTuningJob {
    const cancelled: FineTuningJob = {
      ...job,
      status: 'cancelled',
      finished_at: at,
      estimated_finish: null,
    };
    this.#jobs = this.#jobs.map((held) => (held.id === job.id ? cancelled : held));
    return cancelled;
  }
}

function fromNew(job: NewJob, status: JobStatus): FineTuningJob {
  return {
    id: job.id,
    object: 'fine_tuning.job',
    created_at: job.created_at,
    finished_at: null,
    estimated_finish: null,
    error: null,
    fine_tuned_model: null,
    hyperparameters: job.hyperparameters,
    model: job.model,
    organization_id: 'org-mock',
    result_files: [],
    status,
    trained_tokens: null,
    training_file: job.training_file,
    validation_file: job.validation_file,
    integrations: job.integrations,
    seed: job.seed,
  };
}

function seedJobs(): FineTuningJob[] {
  const states: readonly JobStatus[] = [
    'succeeded',
    'failed',
    'cancelled',
    'running',
    'queued',
    'validating_files',
  ];
  const jobs: FineTuningJob[] = [];
  for (let i = 0; i < states.length * seedsPerState; i++) {
    jobs.unshift(seedJob(i, states[i % states.length] as JobStatus));
  }
  return jobs;
}

function seedJob(index: number, status: JobStatus): FineTuningJob {
  const createdAt = seedTimeOfJobs + index * 5400;
  const number = index + 1;
  const base = fromNew(
    {
      id: `ftjob-mock-${String(number).padStart(3, '0')}`,
      created_at: createdAt,
      hyperparameters: { n_epochs: index % 3 === 0 ? 'auto' : (index % 50) + 1 },
      model: 'gpt-4o-mini-2024-07-18',
      training_file: `file-mock-training-${(index % 4) + 1}`,
      validation_file: index % 2 === 0 ? 'file-mock-validation-1' : null,
      integrations: index % 4 === 0 ? [seedIntegration(number)] : null,
      seed: 1000 + index,
    },
    status,
  );
  switch (status) {
    case 'succeeded':
      return {
        ...base,
        finished_at: createdAt + 3600,
        fine_tuned_model: `ft:gpt-4o-mini-2024-07-18:mock::${String(number).padStart(8, '0')}`,
        result_files: [`file-mock-results-${Math.floor(index / 6) + 1}`],
        trained_tokens: 12_000 + number,
      };
    case 'failed':
      return {
        ...base,
        finished_at: createdAt + 120,
        error: {
          code: 'invalid_training_file',
          message: 'The training file holds fewer than 10 examples.',
          param: 'training_file',
        },
      };
    case 'cancelled':
      return { ...base, finished_at: createdAt + 600 };
    case 'running':
      return { ...base, estimated_finish: createdAt + 7200 };
    default:
      return base;
  }
}

function seedIntegration(number: number): JobIntegration {
  return {
    type: 'tracker',
    tracker: { project: 'mock-experiments', name: `run-${number}`, entity: null, tags: ['mock'] },
  };
}

const maxUploads = 200;
const maxUploadedBytes = 64 * 1024 * 1024;
/** Creation time of the initial files: 2025-10-01T00:00:00Z. */
const seedTime = 1_759_276_800;

/** A file in the form of OpenAI's list. */
interface FileRecord {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly filename: string;
  readonly purpose: string;
  readonly status: 'processed';
  readonly status_details: string;
}

/** Data of a new file. */
interface NewFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: string;
  readonly content: Buffer;
  readonly createdAt: number;
}

/** Parameters of a page of files. */
interface FileQuestion {
  readonly purpose: string | undefined;
  /** Id of the file before the page. */
  readonly after: string | undefined;
  readonly limit: number;
  readonly newestFirst: boolean;
}

/** A page of files; `hasMore` when others follow. */
interface FilePage {
  readonly files: readonly FileRecord[];
  readonly hasMore: boolean;
}

interface Held {
  readonly record: FileRecord;
  readonly content: Buffer;
  readonly uploaded: boolean;
}

/** The files of one mock provider. Uploads are bounded (200 files, 64 MiB): the oldest are removed. */
export class FileStore {
  readonly #files = new Map<string, Held>();
  #uploads = 0;
  #uploadedBytes = 0;

  constructor() {
    for (const file of seedFiles()) this.#put(file, false);
  }

  /** Number of files. */
  get count(): number {
    return this.#files.size;
  }

  /** The files after the given one, of one purpose or of all; undefined when there is no such file. */
  page({ purpose, after, limit, newestFirst }: FileQuestion): FilePage | undefined {
    if (after !== undefined && !this.#files.has(after)) return undefined;
    const records = [...this.#files.values()].map(({ record }) => record);
    if (newestFirst) records.reverse();
    const start = after === undefined ? 0 : records.findIndex(({ id }) => id === after) + 1;
    const left = records.slice(start).filter((record) => purpose === undefined || record.purpose === purpose);
    return { files: left.slice(0, limit), hasMore: left.length > limit };
  }

  get(id: string): FileRecord | undefined {
    return this.#files.get(id)?.record;
  }

  content(id: string): Buffer | undefined {
    return this.#files.get(id)?.content;
  }

  add(file: NewFile): FileRecord {
    const record = this.#put(file, true);
    for (const [id, held] of this.#files) {
      if (this.#uploads <= maxUploads && this.#uploadedBytes <= maxUploadedBytes) break;
      if (held.uploaded) this.delete(id);
    }
    return record;
  }

  /** False when there is no such file. */
  delete(id: string): boolean {
    const held = this.#files.get(id);
    if (held?.uploaded) {
      this.#uploads -= 1;
      this.#uploadedBytes -= held.content.length;
    }
    return this.#files.delete(id);
  }

  #put(file: NewFile, uploaded: boolean): FileRecord {
    const record: FileRecord = {
      id: file.id,
      object: 'file',
      bytes: file.content.length,
      created_at: file.createdAt,
      filename: file.filename,
      purpose: file.purpose,
      status: 'processed',
      status_details: '',
    };
    this.#files.set(file.id, { record, content: file.content, uploaded });
    if (uploaded) {
      this.#uploads += 1;
      this.#uploadedBytes += file.content.length;
    }
    return record;
  }
}

function seedFiles(): NewFile[] {
  const files: NewFile[] = [];
  const add = (id: string, filename: string, purpose: string, text: string) =>
    files.push({
      id,
      filename,
      purpose,
      content: Buffer.from(text),
      createdAt: seedTime + files.length * 3600,
    });
  for (let i = 1; i <= 4; i++) {
    const line = (role: string, content: string) => ({ role, content });
    const example = { messages: [line('user', `Question ${i}`), line('assistant', `Answer ${i}`)] };
    add(
      `file-mock-training-${i}`,
      `training-${i}.jsonl`,
      'fine-tune',
      `${JSON.stringify(example)}\n`.repeat(10),
    );
  }
  add(
    'file-mock-validation-1',
    'validation-1.jsonl',
    'fine-tune',
    '{"messages":[{"role":"user","content":"Check"}]}\n',
  );
  for (let i = 1; i <= 8; i++) {
    add(
      `file-mock-results-${i}`,
      `step-metrics-${i}.csv`,
      'fine-tune-results',
      `step,train_loss\n1,0.9\n2,0.${i}\n`,
    );
  }
  add(
    'file-mock-batch-1',
    'batch-1.jsonl',
    'batch',
    '{"custom_id":"1","method":"POST","url":"/v1/chat/completions"}\n',
  );
  add('file-mock-assistant-1', 'handbook.txt', 'assistants', 'A handbook for the assistant.\n');
  return files;
}
