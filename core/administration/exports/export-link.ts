import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { ExportLink, LinkedExport } from '../../ports/exports.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { finishedFile, savedAs } from './export-names.ts';
import type { ExportPlace } from './export-place.ts';

type LinkPlace = Pick<ExportPlace, 'blobs' | 'formats' | 'secrets' | 'settings' | 'clock'>;

/** No record has this id: what is sealed for a link opens nothing else. */
const context = 'log_export/link';
const Sealed = Type.Object({
  organisationId: Type.String(),
  exportId: Type.String(),
  run: Type.Integer(),
  expiresAt: Type.Integer(),
});

/**
 * A link to the file of a finished export: to the store of files where that hands them out itself, else to this gateway,
 * with a token that the gateway has sealed. Gateways that share `WEIR_SECRET_KEY` open each other's.
 */
export async function exportLink(
  { blobs, formats, secrets, settings, clock }: LinkPlace,
  record: StoredRecord<'log_export'>,
  origin: string,
): Promise<ExportLink> {
  const { run, format, expiresAt: removedAt = Infinity } = record.data;
  const { contentType } = await formats(format);
  const now = clock.now();
  const expiresAt = Math.floor(Math.min(removedAt, now + settings.link_minutes * 60_000));
  const stored = blobs.link(finishedFile(record, run, format), {
    seconds: Math.max(1, Math.floor((expiresAt - now) / 1000)),
    ...{ fileName: savedAs(record, format), contentType },
  });
  if (stored !== undefined) return { url: stored, expiresAt };
  const linked: LinkedExport = {
    ...{ organisationId: record.organisationId, exportId: record.id, run, expiresAt },
  };
  const sealed = secrets.seal(JSON.stringify(linked), context);
  return { url: `${origin}/logs/exports/${record.id}/file?token=${encodeURIComponent(sealed)}`, expiresAt };
}

/** What the token of a link is for. Throws `key_invalid` when it is none, or has ended. */
export function readExportToken(
  { secrets, clock }: Pick<LinkPlace, 'secrets' | 'clock'>,
  token: string,
): LinkedExport {
  const sealed = open(secrets, token);
  if (!Value.Check(Sealed, sealed))
    throw refused('This link is not one of this gateway, or was not copied whole.');
  if (clock.now() >= sealed.expiresAt) throw refused('This link has ended.');
  return sealed;
}

function open(secrets: LinkPlace['secrets'], token: string): unknown {
  try {
    return JSON.parse(secrets.open(token, context));
  } catch {
    return undefined;
  }
}

function refused(why: string): GatewayError {
  return new GatewayError('key_invalid', `${why} Ask for a new one: GET /logs/exports/{exportId}/download.`, {
    param: '/token',
  });
}
