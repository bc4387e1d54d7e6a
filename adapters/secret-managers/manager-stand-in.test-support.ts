import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { recordingLog, type Line } from '../../core/lifecycle/recording-services.test-support.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import type { SecretReferenceData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { secretContext, type SecretManagers, type SecretSources } from '../../core/ports/secret-managers.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';
import { createCredentialFactory } from '../credentials/index.ts';
import { createGuardedFetch } from '../guarded-fetch/guarded-fetch.ts';
import { testTransport, silentLog } from '../transport/transport.test-support.ts';
import { createSecretStore } from './index.ts';

/** A call to a stand-in. */
export interface ManagerCall {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** The answer of a stand-in; undefined: it never answers. */
export type ManagerAnswer = { readonly status?: number; readonly body: string | object } | undefined;

/** Settings of a test's managers. */
interface SettingOptions {
  readonly answer?: (call: ManagerCall) => ManagerAnswer;
  readonly sources?: Partial<SecretSources>;
  readonly environment?: Readonly<Record<string, string>>;
  /** True when `security.trusted_hosts` lists the stand-in's host. Default true. */
  readonly isTrusted?: boolean;
}

/** Secret managers over real sockets, and one HTTP server that replaces all of them. */
export async function startManagers(t: TestContext, options: SettingOptions = {}) {
  const { answer = () => ({ status: 500, body: '' }), isTrusted = true } = options;
  const calls: ManagerCall[] = [];
  let arrived: () => void = () => undefined;
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const call = { method, url, headers, body: Buffer.concat(chunks).toString() };
      calls.push(call);
      const given = answer(call);
      arrived();
      if (given === undefined) return;
      const { status = 200, body } = given;
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const transport = testTransport();
  t.after(async () => {
    await transport.close();
    server.closeAllConnections();
    server.close();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const origin = `http://${host}`;
  const clock = new ManualClock();
  const lines: Line[] = [];
  const environment = {
    AWS_ENDPOINT_URL_SECRETS_MANAGER: origin,
    AWS_ENDPOINT_URL_STS: origin,
    AZURE_AUTHORITY_HOST: origin,
    ...options.environment,
  };
  const credentials = createCredentialFactory({ clock, transport, environment });
  const store = createSecretStore({ clock, log: recordingLog(lines), transport, credentials, environment });
  const trustedHosts = isTrusted ? [host] : [];
  const within = (sources: Partial<SecretSources> = {}): SecretManagers =>
    store.within({
      guardedFetch: createGuardedFetch({ log: silentLog, clock, trustedHosts }),
      trustedHosts: new TrustedHosts(trustedHosts),
      sources: { environment_prefix: '', folder: '', machine_identity: false, ...sources },
    });
  return {
    origin,
    calls,
    clock,
    lines,
    managers: within(options.sources),
    within,
    /** Settles at the next call. */
    nextCall: () => new Promise<void>((resolve) => (arrived = resolve)),
  };
}

/** A reference with these sealed fields. */
export function aReference(
  data: Pick<SecretReferenceData, 'managerType' | 'secretPath'> & Partial<SecretReferenceData>,
  secrets: Readonly<Record<string, string>> = {},
  version = 1,
): StoredRecord<'secret_reference'> {
  const id = 'reference-1';
  const sealed = Object.entries(secrets).map(([name, text]): [string, string] => [
    name,
    testSecrets.seal(text, secretContext(id, name)),
  ]);
  return {
    kind: 'secret_reference',
    id,
    organisationId: 'o',
    workspaceId: undefined,
    slug: 'openai-key',
    name: 'n',
    status: 'active',
    parentId: '',
    createdBy: '',
    updatedBy: '',
    createdAt: 1,
    updatedAt: 1,
    data: {
      description: '',
      authConfig: {},
      secretKey: '',
      allowAllWorkspaces: true,
      allowedWorkspaces: [],
      ...data,
    },
    secrets: Object.fromEntries(sealed),
    version,
  };
}
