import type { TSchema } from 'typebox';

/** An object of the document, or a JSON Schema in it. */
export type DocumentObject = Readonly<Record<string, unknown>>;

/** What an operation answers errors with: the shape of the API that its client speaks. */
export type ErrorShape = 'admin' | 'openai' | 'anthropic' | 'gemini';

/** A parameter of one operation. */
export interface OperationParameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly schema: unknown;
  readonly example?: unknown;
}

/** A body that is sent or answered. */
export interface OperationBody {
  readonly type: string;
  readonly schema: TSchema | DocumentObject;
  readonly example?: unknown;
}

/** One operation before it is put into the document. */
export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the base path, or the whole path where `unprefixed`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly deprecated?: boolean;
  /** Served without the base path only. */
  readonly unprefixed?: boolean;
  readonly parameters?: readonly OperationParameter[];
  /** Whether the headers that steer the gateway count here. */
  readonly steered?: boolean;
  readonly request?: readonly OperationBody[];
  readonly requestRequired?: boolean;
  /** Default 200. */
  readonly status?: number;
  readonly answer: string;
  readonly response: readonly OperationBody[];
  readonly errors: ErrorShape | 'none';
  /** Who may call: holders of a service key, operators (`server.operations`), or anybody. */
  readonly access: 'key' | 'operators' | 'anybody';
  /** Members that begin with `x-`. */
  readonly extensions?: DocumentObject;
}
