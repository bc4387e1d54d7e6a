import type { Scope } from '../../core/pipeline/plugin.ts';
import type { RecordPlace } from '../../core/ports/records.ts';

/** Tells whether there is a config of a name: those of the configuration, and what else its maker says. */
export type ConfigNames = Pick<Scope['router'], 'missingConfig'>;

/** The names of configs that may be used in a workspace: those of the configuration, and those that were saved in it. */
export function configNamesIn(router: ConfigNames, place: RecordPlace): ConfigNames {
  return { missingConfig: (slug) => router.missingConfig(slug, place) };
}
