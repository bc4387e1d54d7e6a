import { basename } from 'node:path';
import type { ConfigSource } from '../../config/config-source.ts';
import { pointerSegments } from '../../base/pointer.ts';
import type { GatewayConfig } from '../../config/schema.ts';

/** A configuration, as the owner of records. */
export interface OwnedFile {
  readonly config: Partial<Pick<GatewayConfig, 'organisation' | 'configs' | 'providers'>>;
  /** Where it was read from. Absent: messages name `gateway.config.yaml`, and nothing is known of variables. */
  readonly source?: Pick<ConfigSource, 'fileOf' | 'origin'> | undefined;
}

/** `organisation.workspaces[2]`, for the JSON pointer of what a file owns. */
export function ownedPlace(pointer: string): string {
  const segments = pointerSegments(pointer);
  const isList = segments[0] === 'organisation';
  return segments
    .map((name) => (isList && /^\d+$/.test(name) ? `[${name}]` : `.${name}`))
    .join('')
    .slice(1);
}

/** `gateway.config.yaml (organisation.workspaces[2])`: the file and the place of what stands at this pointer. */
export function ownerAt(pointer: string, source: OwnedFile['source']): string {
  const file = source === undefined ? 'gateway.config.yaml' : basename(source.fileOf(pointer));
  return `${file} (${ownedPlace(pointer)})`;
}
