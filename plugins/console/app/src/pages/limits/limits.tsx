import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { Budgets } from '@/pages/limits/budgets';
import { ratePolicies, usagePolicies } from '@/pages/limits/policies';
import { ResourcePage } from '@/resource/page';
import { Tabs } from '@/resource/sheet';
import { limits as texts } from '@/texts/limits';
import { Page } from '@/ui/page';

/** Budgets of everything in one list, and the policies. */
export default function Limits() {
  const [{ show }, change] = useAddressTexts();
  const { may } = useSession();
  const policies = may('policies.list');
  const shown = policies && (show === 'usage' || show === 'rates') ? show : 'budgets';
  const none = { open: undefined, edit: undefined, new: undefined, search: undefined, status: undefined };
  return (
    <Page title={texts.title}>
      {policies && (
        <Tabs
          tabs={Object.entries(texts.tabs)}
          chosen={shown}
          onChange={(next) =>
            change({ ...none, page: undefined, tab: undefined, show: next === 'budgets' ? undefined : next })
          }
        />
      )}
      {shown === 'budgets' && <Budgets />}
      {shown === 'usage' && <ResourcePage key="usage" inner resource={usagePolicies} />}
      {shown === 'rates' && <ResourcePage key="rates" inner resource={ratePolicies} />}
    </Page>
  );
}
