import {
  createContext,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useState,
  type ReactNode,
} from 'react';
import { isZone, type Zone } from '@/lib/zones';

type Look = 'light' | 'dark' | 'system';

/** What a user has chosen for this browser. */
interface Preferences {
  readonly look: Look;
  readonly zone: Zone;
  readonly isDark: boolean;
  /** The list of logs shows the first words of each request, which costs the reading of its body. */
  readonly words: boolean;
  setLook(look: Look): void;
  setZone(zone: Zone): void;
  setWords(on: boolean): void;
}

const Context = createContext<Preferences | undefined>(undefined);

function stored(name: string): string | null {
  try {
    return localStorage.getItem(`weir-${name}`);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(`weir-${name}`, value);
  } catch {
    // Private windows may refuse; the choice lasts as long as the page.
  }
}

const systemDark = matchMedia('(prefers-color-scheme: dark)');

export function PreferencesProvider({ children }: { readonly children: ReactNode }) {
  const [look, setLook] = useState<Look>(() => (stored('look') as Look | null) ?? 'system');
  const [zone, setZone] = useState<Zone>(() => {
    const kept = stored('zone') ?? '';
    return isZone(kept) ? kept : 'local';
  });
  const [words, setWords] = useState(() => stored('words') === 'on');
  const [system, setSystem] = useState(systemDark.matches);
  useEffect(() => {
    const listen = (event: MediaQueryListEvent): void => setSystem(event.matches);
    systemDark.addEventListener('change', listen);
    return () => systemDark.removeEventListener('change', listen);
  }, []);
  const isDark = look === 'dark' || (look === 'system' && system);
  // Before the effects of what is drawn with the colours of the look, such as charts.
  useLayoutEffect(() => {
    document.documentElement.classList.toggle('dark', isDark);
  }, [isDark]);
  const value = useMemo(
    (): Preferences => ({
      ...{ look, zone, isDark, words },
      setLook: (next) => {
        store('look', next);
        setLook(next);
      },
      setZone: (next) => {
        store('zone', next);
        setZone(next);
      },
      setWords: (on) => {
        store('words', on ? 'on' : 'off');
        setWords(on);
      },
    }),
    [look, zone, isDark, words],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function usePreferences(): Preferences {
  const value = useContext(Context);
  if (value === undefined) throw new Error('Preferences are used outside of their provider.');
  return value;
}
