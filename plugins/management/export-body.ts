import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { exportFields, exportFormats, type ExportField } from '../../core/ports/export-fields.ts';
import { filterBody } from './request-filter.ts';
import { Identifier, Name, strict } from './text-schema.ts';

export const Field = Type.Enum([...exportFields]);
export const Format = Type.Enum([...exportFormats]);

const Filters = Type.Object(
  {
    ...filterBody,
    page_size: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 50_000,
        description: 'Rows in all, of the page that `current_page` says. Default: every row.',
      }),
    ),
    current_page: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Page of `page_size` rows, from 0.' }),
    ),
  },
  {
    ...strict,
    description:
      'Which requests, as for logs and analytics. `cost_min` and `cost_max` are US cents, as existing clients send them; what is exported is in US dollars.',
  },
);

const RequestedData = Type.Array(Field, {
  minItems: 1,
  maxItems: 50,
  examples: [['id', 'created_at', 'ai_model', 'cost']],
  description: 'The columns.',
});

const shared = {
  filters: Filters,
  workspace_id: Type.Optional(
    Name("Id or slug of the workspace whose requests are exported. Default: the key's own."),
  ),
  description: Type.Optional(Type.String({ maxLength: 1000, description: 'For people.' })),
  format: Type.Optional(
    Type.Enum([...exportFormats], { description: 'What the file is. Default: lines of JSON (`jsonl`).' }),
  ),
};

/** What a new export is made of. */
export const CreateExport = Type.Object({ ...shared, requested_data: RequestedData }, strict);

/** What of a draft is changed; what is not given stays, but for `filters`, which are given whole. */
export const UpdateExport = Type.Object(
  {
    ...shared,
    requested_data: Type.Optional(RequestedData),
    // Some clients send what stands in the path once more.
    exportId: Type.Optional(Identifier),
    export_id: Type.Optional(Identifier),
  },
  strict,
);

export type ExportFilters = Static<typeof Filters>;

/** The columns in the order of the list, each once. */
export function fieldsOf(requested: readonly ExportField[]): readonly ExportField[] {
  return exportFields.filter((field) => requested.includes(field));
}
