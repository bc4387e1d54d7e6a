import type { Static } from 'typebox';
import { rateLimitIssues, usageLimitIssues } from '../../organisation/limits.ts';
import { checkValue } from '../../config/check-value.ts';
import { nodeValue } from '../../config/config-node.ts';
import { createSource, type ConfigSource } from '../../config/config-source.ts';
import { parseYaml } from '../../config/parse-yaml.ts';
import { arrangeProblems, type Problem } from '../../config/problem.ts';
import { quoted } from '../../base/did-you-mean.ts';
import { ExportFile, type ExportedOrganisationData } from './export-schema.ts';

/** Bounds of an import: bytes of the file before its records, and values in it. */
export const importLimits = { bytes: 67_108_864, values: 1_000_000 };

/** Organisations of a file, or all its problems. `source` gives the place of a value. */
type ImportText =
  | {
      readonly ok: true;
      readonly organisations: readonly ExportedOrganisationData[];
      readonly source: ConfigSource;
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Parses the output of `exportText` strictly. `file` names it in messages. Never throws. */
export function readImport(text: string, file: string): ImportText {
  const parsed = parseYaml(text, { path: file, name: file }, importLimits.values);
  if (parsed.root === undefined) {
    const empty = { file, line: 1, column: 1, path: '', message: 'the file is empty; name an export' };
    return { ok: false, problems: parsed.problems.length > 0 ? parsed.problems : [empty] };
  }
  const source = createSource(parsed.root, { files: [file], digest: '' });
  const checked = checkValue(ExportFile, nodeValue(parsed.root), { pointer: '', source });
  if (checked.problems.length > 0) return { ok: false, problems: checked.problems };
  const { organisations } = checked.value as Static<typeof ExportFile>;
  const problems = new ImportProblems(source).find(organisations);
  return problems.length > 0
    ? { ok: false, problems: arrangeProblems(problems) }
    : { ok: true, organisations, source };
}

/** Checks beyond the schema. */
class ImportProblems {
  readonly #source: ConfigSource;
  readonly #problems: Problem[] = [];

  constructor(source: ConfigSource) {
    this.#source = source;
  }

  find(organisations: readonly ExportedOrganisationData[]): readonly Problem[] {
    this.#once(organisations, '/organisations', ({ id }) => id);
    organisations.forEach((one, index) => this.#checkOrganisation(one, `/organisations/${index}`));
    return this.#problems;
  }

  #checkOrganisation(data: ExportedOrganisationData, pointer: string): void {
    for (const list of ['workspaces', 'users', 'keys', 'invites', 'group_mappings'] as const)
      this.#once<{ readonly id: string }>(data[list], `${pointer}/${list}`, ({ id }) => id);
    this.#once(data.workspace_settings, `${pointer}/workspace_settings`, (one) => one.workspace_id);
    this.#once(
      ...([data.members, `${pointer}/members`] as const),
      (one) => `${one.user_id} in ${one.workspace_id}`,
    );
    data.workspaces.forEach(({ usage_limits: usage, rate_limits: rates }, index) => {
      const place = `${pointer}/workspaces/${index}`;
      usage.forEach((limit, at) => this.#refuseAll(usageLimitIssues(limit, `${place}/usage_limits/${at}`)));
      this.#refuseAll(rateLimitIssues(rates, `${place}/rate_limits`));
    });
    data.keys.forEach(({ type, workspace_id: workspace, usage_limits: usage, rate_limits: rates }, index) => {
      const place = `${pointer}/keys/${index}`;
      if ((type === 'organisation-service') !== (workspace === undefined))
        this.#refuse(
          `${place}/type`,
          `a key of type ${type} ${workspace === undefined ? 'needs a' : 'has no'} workspace_id`,
        );
      if (usage !== undefined) this.#refuseAll(usageLimitIssues(usage, `${place}/usage_limits`));
      this.#refuseAll(rateLimitIssues(rates, `${place}/rate_limits`));
    });
    data.group_mappings.forEach(({ group_id: id, group_name: name }, index) => {
      if ((id === undefined) === (name === undefined))
        this.#refuse(`${pointer}/group_mappings/${index}`, 'give group_id or group_name, and not both');
    });
  }

  #once<T>(list: readonly T[], pointer: string, identityOf: (one: T) => string): void {
    const places = new Map<string, string>();
    list.forEach((one, index) => {
      const identity = identityOf(one);
      const place = `${pointer}/${index}`;
      const first = places.get(identity);
      if (first === undefined) return void places.set(identity, place);
      const { file, line, column } = this.#source.locate(first);
      this.#refuse(
        place,
        `${quoted(identity)} is there twice; the first stands at ${file}:${line}:${column}`,
      );
    });
  }

  #refuseAll(issues: readonly { readonly path: string; readonly message: string }[]): void {
    for (const { path, message } of issues) this.#refuse(path, `this limit ${message}`);
  }

  #refuse(pointer: string, message: string): void {
    this.#problems.push({ ...this.#source.locate(pointer), path: pointer, message });
  }
}
