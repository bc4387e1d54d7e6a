import { lazy, Suspense, useRef, useState } from 'react';
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
  const [isWanted, setWanted] = useState(false);
  const hasFocus = useRef(false);
  const reader = (
    <Reader
      label={label}
      text={value}
      coloured={coloured}
      onWant={() => setWanted(true)}
      onFocus={(focused) => (hasFocus.current = focused)}
    />
  );
  if (!isWanted) return reader;
  return (
    <Suspense fallback={reader}>
      <YamlEditor label={label} value={value} readOnly takesFocus={() => hasFocus.current} />
    </Suspense>
  );
}

const tones = {
  comment: 'text-soft',
  name: 'text-accent',
  text: 'text-good',
  value: 'text-warn',
} as const;

function coloured(line: string) {
  const shown = [];
  let end = 0;
  for (const { kind, from, to } of yamlPartsOf(line)) {
    shown.push(
      line.slice(end, from),
      <span key={from} className={tones[kind]}>
        {line.slice(from, to)}
      </span>,
    );
    end = to;
  }
  return [...shown, line.slice(end)];
}
