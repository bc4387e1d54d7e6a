import { apiAddress } from '@/api/client';
import { facts } from '@/api/facts';
import { keys as texts } from '@/texts/keys';
import { Button } from '@/ui/button';
import { CodeBlock } from '@/ui/small';

interface SecretProps {
  readonly secret: string;
  /** Without a line to try it with. */
  readonly plain?: boolean;
  readonly text?: string;
  readonly onDone: () => void;
}

/** A secret that is shown once, with a line that uses it. */
export function Secret({ secret, plain = false, text = texts.secret.once, onDone }: SecretProps) {
  const line = [
    `curl ${apiAddress}/chat/completions \\`,
    `  -H '${facts.prefix}-api-key: ${secret}' \\`,
    `  -H 'content-type: application/json' \\`,
    `  -d '{"model": "mock-gpt", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join('\n');
  return (
    <div className="grid gap-3">
      <p className="bg-warn-wash text-warn rounded-md p-3">{text}</p>
      <CodeBlock text={secret} className="pr-12 break-all" />
      {!plain && (
        <>
          <p className="font-medium">{texts.secret.try}</p>
          <CodeBlock text={line} className="pr-12" />
        </>
      )}
      <div className="flex justify-end">
        <Button kind="primary" onClick={onDone}>
          {texts.secret.done}
        </Button>
      </div>
    </div>
  );
}
