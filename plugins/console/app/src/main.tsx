import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { Tooltip } from 'radix-ui';
import { isPassing } from '@/api/client';
import { facts } from '@/api/facts';
import { type Caller, firstCaller, SessionProvider, useSession } from '@/api/session';
import { PreferencesProvider } from '@/lib/preferences';
import { router } from '@/router';
import { SignIn, SignInAgain } from '@/shell/sign-in';
import { Failed } from '@/ui/states';
import { ToastProvider } from '@/ui/toast';
import '@/styles.css';

// Radix adds styles while a dialog is open; the content security policy wants the nonce of the page on them.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce;
if (nonce) setNonce(nonce);

const queries = new QueryClient({
  defaultOptions: {
    // Also offline: a gateway on this machine answers all the same, and another one is said to be out of reach.
    queries: {
      networkMode: 'always',
      staleTime: 10_000,
      retry: (failures, error) => failures < 2 && isPassing(error),
    },
    mutations: { networkMode: 'always' },
  },
});

function App() {
  const { caller, ended, visit } = useSession();
  if (caller === null) return <SignIn />;
  return (
    <>
      <RouterProvider key={visit} router={router} />
      {ended && <SignInAgain />}
    </>
  );
}

// The page's own script comes while the caller is asked for; until then the frame of index.html is seen.
const caller = firstCaller();
if (facts.session !== null) void router.load();
const root = createRoot(document.getElementById('root') as HTMLElement);
const begin = (first: Caller | null): void =>
  root.render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <PreferencesProvider>
          <Tooltip.Provider>
            <SessionProvider first={first}>
              <ToastProvider>
                <App />
              </ToastProvider>
            </SessionProvider>
          </Tooltip.Provider>
        </PreferencesProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
/** A gateway that cannot say who is signed in says nothing about the session. */
const failed = (error: unknown): void =>
  root.render(
    <main>
      <Failed error={error} onRetry={() => void firstCaller().then(begin, failed)} />
    </main>,
  );
void caller.then(begin, failed);
