import { lazy } from 'react';
import { Reader } from '@/editor/reader';
import { yamlPartsOf } from '@/editor/yaml-parts';

const YamlEditor = lazy(() => import('@/editor/yaml-editor'));

interface YamlTextProps {
  /** Says what the text is, to readers of the screen. */
  readonly label: string;
  readonly value: string;
}

/** A text of YAML to read. It can be folded once the pointer or the focus has brought its editor. */
export function YamlText({ label, value }: YamlTextProps) {
  return (
    <Reader
      {...{ label, text: value, partsOf: yamlPartsOf }}
      editor={(takesFocus) => <YamlEditor {...{ label, value, takesFocus }} readOnly />}
    />
  );
}
