// A part of the composition root: where exported files are kept.
import path from 'node:path';
import { type AwsKeys, presign, SigV4Signer } from '../adapters/credentials/sigv4.ts';
import type { Blobs } from '../core/ports/exports.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { ExportSettings } from '../core/ports/export-fields.ts';
import { createFileBlobs } from '../storage/blobs/file-blobs.ts';
import { s3Place } from '../storage/blobs/s3-client.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Options of `openBlobs`. */
interface BlobsOptions {
  readonly settings: ExportSettings;
  /** The data folder, absolute. */
  readonly data: string;
  readonly environment: Environment;
  readonly clock: Pick<Clock, 'now'>;
}

/** The store that the configuration names; nothing is asked of it yet. Throws one sentence when keys are missing. */
export async function openBlobs({ settings, data, environment, clock }: BlobsOptions): Promise<Blobs> {
  const { url, region } = settings;
  if (!url.startsWith('s3:')) {
    const named = url.slice('file:'.length);
    return createFileBlobs(named === '' ? path.join(data, 'exports') : named);
  }
  const keys = keysOf(settings, environment);
  const signer = new SigV4Signer({ keys, region, service: 's3' });
  // A gateway that keeps files on a disk loads no client.
  const { createS3Blobs } = await import('../storage/blobs/s3-blobs.ts');
  return createS3Blobs({
    place: s3Place(settings),
    signer: {
      sign: (request) => signer.sign(request, clock.now()),
      presign: (origin, name, seconds) =>
        presign({ method: 'GET', origin, path: name, seconds }, { keys, region }, clock.now()),
    },
  });
}

function keysOf(settings: ExportSettings, environment: Environment): AwsKeys {
  const { access_key_id: id, secret_access_key: secret, session_token: token } = settings;
  const isOwn = id !== undefined || secret !== undefined;
  const accessKeyId = isOwn ? id : environment['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = isOwn ? secret : environment['AWS_SECRET_ACCESS_KEY'];
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw new Error(
      'exports.url names a bucket, and its keys are missing: give exports.access_key_id and exports.secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment.',
    );
  const sessionToken = (isOwn ? token : environment['AWS_SESSION_TOKEN']) || undefined;
  return { accessKeyId, secretAccessKey, sessionToken };
}
