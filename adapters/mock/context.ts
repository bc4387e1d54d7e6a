import type { HeaderList } from '../../core/ports/header-list.ts';
import type { ReceivedBody } from './body.ts';
import type { Faults } from './fault-words.ts';
import type { FileStore } from './file-store.ts';
import type { JobStore } from './job-store.ts';
import type { JsonObject } from './json-value.ts';
import type { NewId } from './new-id.ts';

/** What the endpoints of one mock provider share. */
export interface MockContext {
  readonly newId: NewId;
  /** Wall clock in whole seconds since the epoch. */
  nowSeconds(): number;
  readonly files: FileStore;
  readonly jobs: JobStore;
}

/** One request as an endpoint sees it. */
export interface MockRequest {
  readonly method: string;
  /** As it was sent, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: HeaderList;
  readonly body: ReceivedBody;
  /** The JSON body; empty for endpoints that read none. */
  readonly json: JsonObject;
  /** The variable segments of the path, decoded, in order. */
  readonly params: readonly string[];
  readonly faults: Faults;
}
