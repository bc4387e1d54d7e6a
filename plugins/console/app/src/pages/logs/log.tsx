import { Page } from '@/ui/page';

export default function Log() {
  return <Page title="Log">{null}</Page>;
}
