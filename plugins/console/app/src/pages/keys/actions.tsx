import { useState } from 'react';
import { useMutation } from '@tanstack/react-query';
import { KeyRound, RotateCcw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import type { Key } from '@/pages/keys/keys';
import type { Tools } from '@/resource/declaration';
import { Secret } from '@/resource/secret';
import { keys as texts } from '@/texts/keys';
import { Button } from '@/ui/button';
import { Confirm, Dialog, DialogButtons } from '@/ui/dialog';
import { Field, Select } from '@/ui/fields';
import { useToast } from '@/ui/toast';

interface KeyActionsProps {
  readonly record: Key;
  readonly tools: Tools;
  /** First part of the scopes of its type. */
  readonly scope: string;
}

export function KeyActions({ record, tools, scope }: KeyActionsProps) {
  const { may } = useSession();
  const [rotates, setRotates] = useState(false);
  const [resets, setResets] = useState(false);
  const say = useToast();
  return (
    <>
      {may(`${scope}.rotate`) && (
        <Button onClick={() => setRotates(true)}>
          <KeyRound className="size-4" />
          {texts.rotate}
        </Button>
      )}
      {record.usage_limits !== null && may(`${scope}.update`) && (
        <Button onClick={() => setResets(true)}>
          <RotateCcw className="size-4" />
          {texts.reset}
        </Button>
      )}
      {rotates && <Rotate {...{ record, tools }} onClose={() => setRotates(false)} />}
      <Confirm
        open={resets}
        onOpenChange={setResets}
        title={texts.resetTitle}
        text={texts.resetText}
        action={texts.reset}
        onConfirm={async () => {
          await api.PUT('/api-keys/{id}', {
            params: { path: { id: record.id } },
            body: { reset_usage: true },
          });
          await tools.refresh();
          say({ text: texts.resetDone, tone: 'good' });
        }}
      />
    </>
  );
}

interface RotateProps extends Omit<KeyActionsProps, 'scope'> {
  readonly onClose: () => void;
}

function Rotate({ record, tools, onClose }: RotateProps) {
  const [life, setLife] = useState('86400000');
  const rotating = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/api-keys/{id}/rotate', {
          params: { path: { id: record.id } },
          body: { key_transition_period_ms: Number(life) },
        }),
      ),
    onSuccess: () => tools.refresh(),
  });
  const made = rotating.data?.key;
  return (
    <Dialog
      open
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
      title={made === undefined ? texts.rotateTitle(record.name) : texts.secret.title}
      {...(made === undefined && { description: texts.rotateText })}
    >
      {made === undefined ? (
        <>
          <Field label={texts.rotateLife} fault={rotating.error?.message}>
            {(control) => (
              <Select
                {...control}
                options={Object.entries(texts.rotateLives)}
                value={life}
                onChange={(event) => setLife(event.target.value)}
              />
            )}
          </Field>
          <DialogButtons
            onCancel={onClose}
            submit={texts.rotate}
            onSubmit={() => rotating.mutate()}
            busy={rotating.isPending}
          />
        </>
      ) : (
        <Secret secret={made} onDone={onClose} />
      )}
    </Dialog>
  );
}
