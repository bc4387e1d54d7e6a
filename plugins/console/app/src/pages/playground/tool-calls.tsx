import { useState } from 'react';
import type { ToolCall } from '@/pages/playground/messages';
import { callFaults } from '@/pages/playground/tools';
import { playground as texts } from '@/texts/playground';
import { Button } from '@/ui/button';
import { Field, Textarea } from '@/ui/fields';
import { CodeBlock } from '@/ui/small';

interface ToolCallsProps {
  readonly calls: readonly ToolCall[];
  /** Those that the model was offered. */
  readonly tools: readonly unknown[];
  /** Gets what the tools answer, as the user writes it; undefined while that makes no sense. */
  readonly onAnswer: ((results: readonly string[]) => void) | undefined;
}

/** The calls of an answer, whether they follow their tools, and room for what the tools answer. */
export function ToolCalls({ calls, tools, onAnswer }: ToolCallsProps) {
  const [results, setResults] = useState<readonly string[]>([]);
  const list = calls.map((call, index) => {
    const faults = onAnswer === undefined ? [] : callFaults(call, tools);
    return (
      <div key={index} className="grid gap-1">
        <p className="text-soft text-xs">
          {texts.toolCall} <code className="font-mono">{call.name}</code>
        </p>
        <CodeBlock text={call.arguments} />
        {faults.length > 0 && (
          <div className="text-warn text-xs">
            <p>{texts.callFault}</p>
            <ul className="list-disc pl-4">
              {faults.map((fault) => (
                <li key={fault}>{fault}</li>
              ))}
            </ul>
          </div>
        )}
        {onAnswer !== undefined && (
          <Field label={texts.result(call.name, index + 1)} help={texts.resultHelp}>
            {(control) => (
              <Textarea
                {...control}
                className="min-h-14 font-mono text-xs"
                value={results[index] ?? ''}
                onChange={(event) => {
                  const { value } = event.target;
                  setResults(calls.map((_, at) => (at === index ? value : (results[at] ?? ''))));
                }}
              />
            )}
          </Field>
        )}
      </div>
    );
  });
  if (onAnswer === undefined) return <div className="mt-2 grid gap-3">{list}</div>;
  return (
    <form
      className="mt-2 grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        onAnswer(calls.map((_, index) => results[index] ?? ''));
      }}
    >
      {list}
      <Button type="submit" className="w-fit">
        {texts.sendResults}
      </Button>
    </form>
  );
}
