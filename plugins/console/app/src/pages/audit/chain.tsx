import { useState } from 'react';
import { useMutation } from '@tanstack/react-query';
import { ShieldCheck } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { count } from '@/lib/format';
import { audit as texts } from '@/texts/audit';
import { Button } from '@/ui/button';
import { Dialog } from '@/ui/dialog';

/** Verifies the whole hash chain, part by part. */
export function Chain() {
  const [open, setOpen] = useState(false);
  const [verified, setVerified] = useState(0);
  const verifying = useMutation({
    mutationFn: async () => {
      for (let after = 0; ;) {
        const query = { after };
        const part = await dataOf(api.GET('/audit-logs/verification', { params: { query } }));
        setVerified(part.verified);
        if (part.is_complete) return part;
        after = part.verified;
      }
    },
  });
  const { data, error, isPending } = verifying;
  return (
    <>
      <Button
        onClick={() => {
          setOpen(true);
          setVerified(0);
          verifying.mutate();
        }}
      >
        <ShieldCheck className="size-4" />
        {texts.chain.button}
      </Button>
      <Dialog open={open} onOpenChange={setOpen} title={texts.chain.title} description={texts.chain.text}>
        <div role="status" className="min-h-12">
          {isPending && <p>{texts.chain.going(count(verified))}</p>}
          {error !== null && <p className="text-bad">{error.message}</p>}
          {data !== undefined &&
            (data.fault === null ? (
              <p className="bg-good-wash text-good rounded-md p-3">{texts.chain.ok(count(data.verified))}</p>
            ) : (
              <p className="bg-bad-wash text-bad rounded-md p-3">{texts.chain.bad(data.fault)}</p>
            ))}
        </div>
      </Dialog>
    </>
  );
}
