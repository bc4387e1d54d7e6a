const maxUploads = 200;
const maxUploadedBytes = 64 * 1024 * 1024;
/** When the files that are there from the start were made: 2025-10-01T00:00:00Z. */
const seedTime = 1_759_276_800;

/** A file as OpenAI lists it. */
export interface FileRecord {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly filename: string;
  readonly purpose: string;
  readonly status: 'processed';
  readonly status_details: string;
}

/** What a new file consists of. */
export interface NewFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: string;
  readonly content: Buffer;
  readonly createdAt: number;
}

/** Which files a page holds. */
export interface FileQuestion {
  readonly purpose: string | undefined;
  /** The file before the page. */
  readonly after: string | undefined;
  readonly limit: number;
  readonly newestFirst: boolean;
}

/** Some files, and whether there are more behind them. */
export interface FilePage {
  readonly files: readonly FileRecord[];
  readonly hasMore: boolean;
}

interface Held {
  readonly record: FileRecord;
  readonly content: Buffer;
  readonly uploaded: boolean;
}

/** The files of one mock provider. Uploads are bounded (200 files, 64 MiB): the oldest make room for new ones. */
export class FileStore {
  readonly #files = new Map<string, Held>();
  #uploads = 0;
  #uploadedBytes = 0;

  constructor() {
    for (const file of seedFiles()) this.#put(file, false);
  }

  /** How many there are. */
  get count(): number {
    return this.#files.size;
  }

  /** The files after the one named, of one purpose or of all; undefined when no such file is held. */
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
