import { type ClipboardEvent, type DragEvent, useRef, useState } from 'react';
import { ImagePlus, X } from 'lucide-react';
import { Picture } from '@/pages/logs/messages';
import { playground } from '@/texts/playground';
import { Button, IconButton } from '@/ui/button';

const texts = playground.images;
/** What every wire takes. */
const kinds = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** Of a message; with the largest ones a request stays below what the gateway takes by default. */
const mostImages = 4;
const mostBytes = 5_242_880;

/** A file as `data:` address. */
async function addressOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(texts.unreadable(file.name)));
    reader.readAsDataURL(file);
  });
}

/** Adds files to the images of a message, from the disk, the clipboard or a drop; `fault` says which it does not take. */
export function useImages(images: readonly string[], onImages: (images: readonly string[]) => void) {
  const [fault, setFault] = useState<string>();
  const now = useRef(images);
  now.current = images;
  const add = async (files: readonly File[]): Promise<void> => {
    const wrong = files.find(({ type }) => !kinds.includes(type));
    const large = files.find(({ size }) => size > mostBytes);
    if (wrong !== undefined) return setFault(texts.kind(wrong.name));
    if (large !== undefined) return setFault(texts.large(large.name));
    try {
      const read = await Promise.all(files.map(addressOf));
      const all = [...now.current, ...read];
      setFault(all.length > mostImages ? texts.many(mostImages) : undefined);
      onImages(all.slice(0, mostImages));
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
  };
  /** Takes files; a text goes where it always goes. */
  const take = (event: ClipboardEvent | DragEvent, data: DataTransfer): void => {
    if (data.files.length === 0) return;
    event.preventDefault();
    void add([...data.files]);
  };
  return {
    add,
    fault,
    clear: () => setFault(undefined),
    onPaste: (event: ClipboardEvent): void => take(event, event.clipboardData),
    /** Without it the browser opens a file in the place of the page. */
    onDragOver: (event: DragEvent): void => {
      if ([...event.dataTransfer.items].some(({ kind }) => kind === 'file')) event.preventDefault();
    },
    onDrop: (event: DragEvent): void => take(event, event.dataTransfer),
  };
}

interface ImagesProps {
  /** Number of the message, for readers of the screen. */
  readonly number: number;
  readonly images: readonly string[];
  /** Messages of other roles keep what they have. */
  readonly canAdd: boolean;
  readonly fault: string | undefined;
  readonly onAdd: (files: readonly File[]) => void;
  readonly onImages: (images: readonly string[]) => void;
}

/** The images of a message, each with a button that takes it away, and one that adds more. */
export function Images({ number, images, canAdd, fault, onAdd, onImages }: ImagesProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      {images.length > 0 && (
        <ul aria-label={texts.of(number)} className="flex flex-wrap gap-2">
          {images.map((url, index) => (
            <li key={index} className="flex max-w-60 min-w-0 items-start">
              <Picture url={url} className="max-h-24" />
              <IconButton
                label={texts.remove(index + 1)}
                onClick={() => onImages(images.filter((_, at) => at !== index))}
              >
                <X className="size-4" />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      {canAdd && (
        <>
          <input
            ref={input}
            type="file"
            multiple
            hidden
            accept={kinds.join(',')}
            onChange={({ target }) => {
              onAdd([...(target.files ?? [])]);
              // The same file may be chosen again.
              target.value = '';
            }}
          />
          <Button
            kind="quiet"
            className="text-soft -ml-3 w-fit"
            title={texts.help}
            aria-label={texts.addTo(number)}
            disabled={images.length >= mostImages}
            onClick={() => input.current?.click()}
          >
            <ImagePlus className="size-4" />
            {texts.add}
          </Button>
        </>
      )}
      {fault !== undefined && (
        <p role="alert" className="text-bad text-xs">
          {fault}
        </p>
      )}
    </>
  );
}
