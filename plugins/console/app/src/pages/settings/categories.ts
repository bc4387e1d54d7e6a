import type { FormField } from '@/resource/declaration';
import { settings as texts } from '@/texts/settings';

/** The parts of the settings that a workspace may say for itself, one at a time. */
export const categories = ['data_visibility', 'prompts', 'configs', 'user_api_keys', 'logging'] as const;
export type Category = (typeof categories)[number];

const flags = (part: 'Data' | 'Analytics' | 'Prompts' | 'Configs') =>
  Object.entries(texts.flags)
    .filter(([name]) => name.endsWith(part))
    .map(([name, label]) => ({ kind: 'toggle', name, label }) as const);

const fields = {
  data_visibility: [...flags('Data'), ...flags('Analytics')],
  prompts: flags('Prompts'),
  configs: flags('Configs'),
  user_api_keys: Object.entries(texts.keys).map(
    ([name, label]) => ({ kind: 'number', name, label, help: texts.keysHelp, whole: true, min: 0 }) as const,
  ),
  logging: [
    {
      kind: 'choice',
      name: 'mode',
      label: texts.logging,
      options: Object.entries(texts.modes).map(([value, text]) => ({ value, text })),
    },
  ],
} as const;

/** The fields of a category in a record that has its values at `pointer`; `from` says where else to read them. */
export function fieldsOf<R>(
  category: Category,
  pointer: string,
  from?: (record: R, name: string) => unknown,
): readonly FormField<R>[] {
  return fields[category].map(({ name, ...field }) => ({
    ...field,
    path: `${pointer}/${name}`,
    ...(from !== undefined && { from: (record: R) => from(record, name) }),
  }));
}
