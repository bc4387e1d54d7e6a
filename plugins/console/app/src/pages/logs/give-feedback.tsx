import { useState } from 'react';
import { objectOf } from '@/lib/json';
import { log } from '@/texts/log';
import { Dialog, DialogButtons } from '@/ui/dialog';
import { Field, Input, Textarea } from '@/ui/fields';

const texts = log.feedback;

/** What somebody says of an answer. */
export interface Opinion {
  /** -10 to 10. */
  readonly value: number;
  /** 0 to 1. Default: 1. */
  readonly weight?: number;
  readonly metadata?: Record<string, unknown>;
}

interface GiveFeedbackProps {
  readonly busy: boolean;
  readonly onClose: () => void;
  readonly onGive: (opinion: Opinion) => void;
}

/** Feedback with a value of its own, a weight, a comment and whatever else is to be kept with it. */
export function GiveFeedback({ busy, onClose, onGive }: GiveFeedbackProps) {
  const [value, setValue] = useState('5');
  const [weight, setWeight] = useState('1');
  const [comment, setComment] = useState('');
  const [text, setText] = useState('');
  const metadata = objectOf(text);
  const said = comment.trim();
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.give} description={texts.giveText}>
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (metadata === undefined) return;
          const all = { ...metadata, ...(said !== '' && { comment: said }) };
          onGive({
            ...{ value: Number(value), weight: Number(weight) },
            ...(Object.keys(all).length > 0 && { metadata: all }),
          });
        }}
      >
        <div className="grid grid-cols-2 gap-3">
          <Field label={texts.value} help={texts.valueHelp}>
            {(control) => (
              <Input
                {...control}
                {...{ type: 'number', min: -10, max: 10, step: 1, required: true }}
                value={value}
                onChange={(event) => setValue(event.target.value)}
              />
            )}
          </Field>
          <Field label={texts.weight} help={texts.weightHelp}>
            {(control) => (
              <Input
                {...control}
                {...{ type: 'number', min: 0, max: 1, step: 'any', required: true }}
                value={weight}
                onChange={(event) => setWeight(event.target.value)}
              />
            )}
          </Field>
        </div>
        <Field label={texts.comment}>
          {(control) => (
            <Textarea
              {...control}
              maxLength={4000}
              value={comment}
              onChange={(event) => setComment(event.target.value)}
            />
          )}
        </Field>
        <Field
          label={texts.metadata}
          help={texts.metadataHelp}
          fault={metadata === undefined ? texts.metadataFault : undefined}
        >
          {(control) => (
            <Textarea
              {...control}
              className="min-h-14 font-mono text-xs"
              placeholder='{"team": "search"}'
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <DialogButtons onCancel={onClose} busy={busy} disabled={metadata === undefined} />
      </form>
    </Dialog>
  );
}
