import { type RefObject, useId } from 'react';
import { Plus, Trash2 } from 'lucide-react';
import { Images, useImages } from '@/pages/playground/images';
import { isSaid, type Message, mostMessages, type Role } from '@/pages/playground/messages';
import { exampleTools } from '@/pages/playground/tools';
import { playground as texts } from '@/texts/playground';
import { Button, IconButton } from '@/ui/button';
import { Select, Textarea } from '@/ui/fields';
import { Card } from '@/ui/page';
import { CodeBlock } from '@/ui/small';

const roles = Object.entries(texts.roles).filter(([role]) => role !== 'tool');

interface ConversationEditorProps {
  readonly messages: readonly Message[];
  readonly tools: string;
  /** The faults of the tools. */
  readonly faults: readonly string[];
  /** How many messages before these were too long to be kept. */
  readonly left: number;
  /** The text of the first message. */
  readonly first: RefObject<HTMLTextAreaElement | null>;
  readonly onMessages: (messages: readonly Message[]) => void;
  readonly onTools: (tools: string) => void;
}

/** The messages and tools that every column gets. */
export function ConversationEditor(props: ConversationEditorProps) {
  const { messages, tools, faults, left, first, onMessages, onTools } = props;
  const change = (index: number, values: Partial<Message>): void =>
    onMessages(messages.map((one, at) => (at === index ? { ...one, ...values } : one)));
  return (
    <Card title={texts.conversation}>
      <div className="grid gap-3 p-4">
        {left > 0 && <p className="text-warn">{texts.messagesLeft(left)}</p>}
        {messages.map((message, index) => (
          <OneMessage
            key={index}
            number={index + 1}
            message={message}
            {...(index === 0 && { field: first })}
            onMessage={(values) => change(index, values)}
            onRemove={
              messages.length === 1 && !isSaid(message)
                ? undefined
                : () => onMessages(without(messages, index))
            }
          />
        ))}
        <Button
          className="w-fit"
          disabled={messages.length >= mostMessages}
          onClick={() => onMessages([...messages, { role: 'user', content: '' }])}
        >
          <Plus className="size-4" />
          {texts.addMessage}
        </Button>
        <Tools text={tools} faults={faults} onText={onTools} />
      </div>
    </Card>
  );
}

/** The messages without one of them; results of calls that it made go with it. */
function without(messages: readonly Message[], index: number): readonly Message[] {
  const gone = new Set(messages[index]?.calls?.map(({ id }) => id));
  const left = messages.filter(
    ({ role, call }, at) => at !== index && !(role === 'tool' && call !== undefined && gone.has(call.id)),
  );
  return left.length === 0 ? [{ role: 'user', content: '' }] : left;
}

interface OneMessageProps {
  /** From 1. */
  readonly number: number;
  readonly message: Message;
  readonly field?: RefObject<HTMLTextAreaElement | null>;
  readonly onMessage: (values: Partial<Message>) => void;
  /** Undefined: the only message, which says nothing, stays. */
  readonly onRemove: (() => void) | undefined;
}

function OneMessage({ number, message, field, onMessage, onRemove }: OneMessageProps) {
  const { role, content, call, calls = [], images = [], imagesLeft = 0 } = message;
  const keep = (all: readonly string[]): void => onMessage({ images: all, imagesLeft: 0 });
  const { add, fault, clear, onPaste, onDragOver, onDrop } = useImages(images, keep);
  const canAdd = role === 'user';
  return (
    <div className="grid grid-cols-[8rem_minmax(0,1fr)_auto] items-start gap-2">
      {role === 'tool' ? (
        <p className="text-soft py-1.5 text-xs break-all">{texts.resultOf(call?.name ?? '')}</p>
      ) : (
        <Select
          aria-label={texts.roleOf(number)}
          value={role}
          options={roles}
          disabled={message.calls !== undefined}
          onChange={(event) => onMessage({ role: event.target.value as Role })}
        />
      )}
      <div className="grid gap-2">
        <Textarea
          ref={field}
          aria-label={texts.textOf(number)}
          rows={Math.min(10, Math.max(2, content.split('\n').length))}
          className="min-h-14"
          value={content}
          onChange={(event) => onMessage({ content: event.target.value })}
          {...(canAdd && { onPaste, onDragOver, onDrop })}
        />
        {calls.map(({ id, name, arguments: sent }) => (
          <div key={id}>
            <p className="text-soft text-xs">
              {texts.toolCall} <code className="font-mono">{name}</code>
            </p>
            <CodeBlock text={sent} className="max-h-48" />
          </div>
        ))}
        {imagesLeft > 0 && <p className="text-warn text-xs">{texts.imagesLeft(imagesLeft)}</p>}
        <Images
          {...{ number, images, canAdd, fault }}
          onAdd={(files) => void add(files)}
          onImages={(all) => {
            clear();
            keep(all);
          }}
        />
      </div>
      <IconButton label={texts.removeMessage} disabled={onRemove === undefined} onClick={() => onRemove?.()}>
        <Trash2 className="size-4" />
      </IconButton>
    </div>
  );
}

interface ToolsProps {
  readonly text: string;
  readonly faults: readonly string[];
  readonly onText: (text: string) => void;
}

function Tools({ text, faults, onText }: ToolsProps) {
  const id = useId();
  return (
    <details open={text !== '' || undefined}>
      <summary className="text-soft flex h-8 cursor-pointer items-center">{texts.tools}</summary>
      <div className="grid gap-1">
        <Textarea
          aria-label={texts.tools}
          aria-describedby={faults.length > 0 ? `${id}-help ${id}-faults` : `${id}-help`}
          aria-invalid={faults.length > 0}
          rows={Math.min(20, Math.max(4, text.split('\n').length))}
          spellCheck={false}
          className="font-mono text-xs"
          value={text}
          onChange={(event) => onText(event.target.value)}
        />
        <p id={`${id}-help`} className="text-soft flex items-center gap-2 text-xs">
          {texts.toolsHelp}
          {text === '' && (
            <Button kind="quiet" onClick={() => onText(exampleTools)}>
              {texts.exampleTools}
            </Button>
          )}
        </p>
        {faults.length > 0 && (
          <div id={`${id}-faults`} role="alert" className="text-bad text-xs">
            {faults.map((fault) => (
              <p key={fault} className="break-words">
                {fault}
              </p>
            ))}
          </div>
        )}
      </div>
    </details>
  );
}
