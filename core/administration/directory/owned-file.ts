import type { ConfigSource } from '../../config/config-source.ts';
import type { GatewayConfig } from '../../config/schema.ts';
import { sha256 } from '../../base/bytes.ts';

/** A configuration, as the owner of records. */
export interface OwnedFile {
  readonly config: Partial<Pick<GatewayConfig, 'organisation' | 'configs' | 'providers'>>;
  /** Source of the configuration. Absent: messages name `gateway.config.yaml`, and the origin of values is unknown. */
  readonly source?: Pick<ConfigSource, 'fileOf' | 'origin'> | undefined;
}

/**
 * Id of a record that the configuration owns: a UUID (version 8, RFC 9562) of these names, the same in every process.
 */
export function fileId(...names: readonly string[]): string {
  const hex = sha256(JSON.stringify(['weir-file-1', ...names]), 'hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}
