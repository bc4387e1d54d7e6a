import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import type { Extension } from '@codemirror/state';
import { type EditorView, hoverTooltip } from '@codemirror/view';
import { descriptionAt, membersAt, type Place, type Schema, schemasAt, valuesAt } from '@/editor/json-schema';
import { descriptionTooltip } from '@/editor/use-editor';
import { yamlEntries, yamlSlot, type YamlSlot } from '@/editor/yaml-place';

/** What the schema says: completion for a text that is written, and what names mean under the pointer. */
export function assist(schema: () => Schema | undefined, readOnly: boolean): Extension {
  return [
    readOnly ? [] : autocompletion({ override: [(context) => complete(context, schema())], icons: false }),
    hoverTooltip((view, position) => hovered(view, position, schema())),
  ];
}

function complete(context: CompletionContext, schema: Schema | undefined): CompletionResult | null {
  if (schema === undefined) return null;
  const { state, pos, explicit } = context;
  const word = context.matchBefore(/["']?[\w$./@-]*/);
  const from = word?.from ?? pos;
  if (!explicit && from === pos) return null;
  const slot = yamlSlot(state.sliceDoc(0, from));
  if (slot === undefined) return null;
  const quote = /^["']/.exec(word?.text ?? '')?.[0] ?? '';
  const rest = state.sliceDoc(pos, pos + 200);
  const to = quote !== '' && rest.startsWith(quote) ? pos + 1 : pos;
  const options = [
    ...(slot.takes === 'value' ? [] : names(state.doc.toString(), { from, to }, slot, quote, schema)),
    ...(slot.takes === 'name' ? [] : values(slot.place, quote, schema)),
  ];
  return options.length === 0 ? null : { from, to, options, validFor: /^["']?[\w$./@-]*$/ };
}

function names(
  text: string,
  { from, to }: { readonly from: number; readonly to: number },
  slot: YamlSlot,
  quote: string,
  schema: Schema,
): readonly Completion[] {
  const holder = JSON.stringify(slot.place);
  const present = new Set(
    yamlEntries(text)
      .filter((one) => one.isName && one.from !== from && JSON.stringify(one.place) === holder)
      .map((one) => one.text),
  );
  const hasColon = /^[ \t]*:/.test(text.slice(to, to + 20));
  return [...membersAt(schema, slot.place)]
    .filter(([name]) => !present.has(name))
    .map(([name, member]): Completion => ({
      label: `${name}:`,
      type: 'property',
      apply: `${quote}${name}${quote}${hasColon ? '' : `:${beginningOf(member, slot, schema)}`}`,
      ...(typeof member['description'] === 'string' && { info: member['description'] }),
    }));
}

/** What stands after the colon, so that the next completion is at its place. */
function beginningOf(member: Schema, { isFlow, indent }: YamlSlot, root: Schema): string {
  const types = schemasAt({ ...member, $defs: root['$defs'] }, []).flatMap(({ type }) => type);
  if (isFlow || types.includes('string') || types.includes('boolean')) return ' ';
  const below = `\n${' '.repeat(indent + 2)}`;
  return types.includes('object') ? below : types.includes('array') ? `${below}- ` : ' ';
}

function values(place: Place, quote: string, schema: Schema): readonly Completion[] {
  return valuesAt(schema, place).map((value) => {
    const isPlain =
      typeof value === 'string' && quote === '' && /^[a-z_][\w./-]*$/i.test(value) && !reserved.test(value);
    return {
      label: isPlain ? value : JSON.stringify(value),
      type: 'constant',
      ...meaningOf(value, place, schema),
    };
  });
}

/** Words that YAML reads as something else than a text. */
const reserved = /^(?:true|false|null|yes|no|on|off|y|n)$/i;

function meaningOf(value: unknown, place: Place, schema: Schema): { readonly info?: string } {
  for (const { const: one, description } of schemasAt(schema, place))
    if (one === value && typeof description === 'string') return { info: description };
  return {};
}

function hovered({ state: { doc } }: EditorView, position: number, schema: Schema | undefined) {
  if (schema === undefined) return null;
  const entry = yamlEntries(doc.toString()).find(({ from, to }) => from <= position && position <= to);
  if (entry === undefined) return null;
  const { place, isName, text, from, to } = entry;
  const said = isName
    ? descriptionAt(schema, [...place, text])
    : (meaningOf(text, place, schema).info ?? descriptionAt(schema, place));
  return said === '' ? null : descriptionTooltip(from, to, said);
}
