import type { Features } from '../../access/features.ts';
import type { Analytics } from '../../ports/analytics.ts';
import type { Blobs, FileFormats } from '../../ports/exports.ts';
import type { ExportSettings } from '../../ports/request-row.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Directory } from '../../ports/directory.ts';
import type { Jobs } from '../../ports/jobs.ts';
import type { Log } from '../../ports/log.ts';
import type { Resources } from '../../ports/resources.ts';
import type { SecretBox } from '../../ports/secret-managers.ts';
import type { VisibilityRule } from './export-rights.ts';

/** Dependencies of exports. */
export interface ExportPlace {
  readonly resources: Resources;
  readonly directory: Directory;
  readonly analytics: Pick<Analytics, 'logs'>;
  readonly blobs: Blobs;
  readonly jobs: Pick<Jobs, 'define' | 'repeat' | 'add'>;
  readonly formats: FileFormats;
  /** Seals links, so that they cannot be forged. */
  readonly secrets: SecretBox;
  readonly features: Pick<Features, 'isOn'>;
  readonly settings: Pick<ExportSettings, 'expires_days' | 'max_rows' | 'link_minutes' | 'denied_fields'>;
  /** Visibility rule of log rows. */
  readonly rule: VisibilityRule;
  readonly clock: Clock;
  readonly log: Log;
  /** How long one attempt collects rows before another job may run. Default 10,000 ms. */
  readonly sliceMs?: number;
}
