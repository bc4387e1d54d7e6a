import type { ExportSettings } from '../../core/ports/export-fields.ts';
import type { S3Place } from './s3-signer.ts';

/** Where `s3://BUCKET/PREFIX` is, given how its store is reached. */
export function s3Place({ url, region, endpoint, path_style: pathStyle }: ExportSettings): S3Place {
  const [bucket = '', ...folders] = url.slice('s3://'.length).split('/');
  const prefix = folders.filter((folder) => folder !== '').join('/');
  const server = new URL(endpoint === '' ? `https://s3.${region}.amazonaws.com` : endpoint);
  const isInPath = pathStyle || bucket.includes('.');
  if (!isInPath) server.host = `${bucket}.${server.host}`;
  return {
    origin: server.origin,
    base: isInPath ? `/${bucket}` : '',
    prefix: prefix === '' ? '' : `${prefix}/`,
  };
}
