/** What an operator does: the HTTP API of a gateway that runs, called from outside. */
import assert from 'node:assert/strict';
import { send, type Received } from './http-kit.ts';
import { ownerKey } from './process-kit.ts';

/** A call of a gateway, below `/v1`. */
export interface Call {
  /** Default: `POST` with a body, else `GET`. */
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  /** Default: the owner's key. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Calls the gateway at this address, whatever it answers. */
export function call(url: string, { method, path, body, key = ownerKey, headers }: Call): Promise<Received> {
  return send(url, {
    path: `/v1${path}`,
    headers: { 'x-service-api-key': key, ...headers },
    ...(method !== undefined && { method }),
    ...(body !== undefined && { body }),
  });
}

/** The same for calls that must succeed: resolves to what is answered, as JSON. */
export async function operate(url: string, asked: Call): Promise<any> {
  const answer = await call(url, asked);
  assert.equal(answer.status, 200, `${asked.method ?? ''} ${asked.path}: ${answer.text}`);
  return answer.json();
}

/** A workspace and a key of it, made through the API. */
export interface Premises {
  /** Id of the workspace. */
  readonly workspace: string;
  readonly keyId: string;
  /** The secret of the key. */
  readonly key: string;
}

/** Makes a workspace, and a service key of it with these scopes. */
export async function makePremises(
  url: string,
  name: string,
  scopes: readonly string[] = ['completions.write'],
): Promise<Premises> {
  const { id: workspace } = await operate(url, { path: '/admin/workspaces', body: { name } });
  const body = { name: `${name} key`, workspace_id: workspace, scopes };
  const { id: keyId, key } = await operate(url, { path: '/api-keys/workspace/service', body });
  return { workspace, keyId, key };
}

/** What one says in a chat, and where it should go. */
interface Chat {
  readonly key: string;
  readonly model?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends a short chat; the model is `gpt-5.1` unless it says otherwise. */
export function chat(url: string, { key, model = 'gpt-5.1', headers = {} }: Chat): Promise<Received> {
  const body = { model, messages: [{ role: 'user', content: 'Hello' }] };
  return call(url, { path: '/chat/completions', key, headers, body });
}

/** Status and code of a refusal, and what it says; of what succeeded the status alone. */
export function refusalOf(answer: Received): readonly [status: number, code?: string, message?: string] {
  if (answer.status === 200) return [200];
  const { error, data } = answer.json();
  return [answer.status, error?.code ?? data?.errorCode, error?.message ?? data?.message];
}
