import pg from 'pg';
import { reasonOf } from './database-errors.ts';
import { MigrationFailed, SchemaMismatch } from './migrate.ts';

/** The resources store cannot be opened; the message is one sentence with the remedy. */
export class ResourcesStartError extends Error {
  /** True when waiting does not help: something has to be changed, here or on the server. */
  readonly lasting: boolean;

  constructor(label: string, { reason, remedy, lasting }: Finding, cause: unknown) {
    super(`the resources store (${label}) cannot be opened: ${reason}. ${remedy}`, { cause });
    this.name = 'ResourcesStartError';
    this.lasting = lasting;
  }
}

interface Finding {
  readonly reason: string;
  readonly remedy: string;
  readonly lasting: boolean;
}

/** The oldest server whose features the statements may use. */
const oldestMajor = 15;
const setting = 'storage.resources.url';
const certificateCodes = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|ALTNAME|ERR_SSL|ERR_TLS/;

/** Throws when a server is older than the statements allow; `version` is its `server_version_num`. */
export function checkVersion(label: string, version: number): void {
  const major = Math.floor(version / 10_000);
  if (major >= oldestMajor) return;
  const reason = `the server runs PostgreSQL ${major}, and ${oldestMajor} or newer is needed`;
  const remedy = `Upgrade it, or name another server in ${setting}.`;
  throw new ResourcesStartError(label, { reason, remedy, lasting: true }, undefined);
}

/** Explains why opening failed. */
export function explainStart(label: string, error: unknown): ResourcesStartError {
  if (error instanceof ResourcesStartError) return error;
  return new ResourcesStartError(label, find(error), error);
}

function find(error: unknown): Finding {
  if (error instanceof SchemaMismatch)
    return { reason: error.message, remedy: 'Nothing was changed in it.', lasting: true };
  const inner = error instanceof MigrationFailed ? error.cause : error;
  if (inner instanceof pg.DatabaseError && inner.code !== undefined) {
    const { code } = inner;
    const known = answers[code] ?? answers[code.slice(0, 2)];
    const [reason, remedy, lasting = true] = known ?? [
      error instanceof MigrationFailed ? error.message : 'it refuses a statement',
      `See the server's log.`,
      error instanceof MigrationFailed,
    ];
    return { reason: `${reason} (error ${code})`, remedy, lasting };
  }
  return unanswered(inner instanceof Error ? inner : new Error(String(inner)));
}

/** By code or by class of codes: the reason, the remedy, and whether waiting is useless (default). */
const answers: Readonly<Record<string, readonly [string, string, boolean?]>> = {
  '28000': [
    'it does not let this user in from here',
    `Check the user in ${setting} and the server's pg_hba.conf; a server that wants TLS needs ?sslmode=verify-full.`,
  ],
  '28': ['it refuses the user or the password', `Check both in ${setting}.`],
  '3D': [
    'there is no such database',
    `Create it (CREATE DATABASE), or name another one at the end of ${setting}.`,
  ],
  '42501': [
    'the user lacks a right that is needed',
    'Make the user owner of the database, or GRANT CREATE, USAGE ON SCHEMA public to it.',
  ],
  '55P03': [
    'another gateway has been changing its schema for a minute',
    'Look whether that one hangs.',
    false,
  ],
  '53': ['it has no connection or memory left', 'Raise max_connections, or stop other clients.', false],
  '57': ['it is starting or stopping', 'Wait for it.', false],
};

function unanswered(error: Error): Finding {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (certificateCodes.test(code)) {
    return {
      reason: `its certificate is not accepted (${code})`,
      remedy: `Name the authority that signed it in storage.resources.ca_file, and the host as the certificate does in ${setting}.`,
      lasting: true,
    };
  }
  if (error.message === 'The server does not support SSL connections') {
    return { reason: 'it speaks no TLS', remedy: `Write ?sslmode=disable in ${setting}.`, lasting: true };
  }
  return { reason: reasonOf(error), remedy: `Check that it runs, and ${setting}.`, lasting: false };
}
