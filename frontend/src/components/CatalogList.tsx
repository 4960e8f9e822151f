import type { LucideIcon } from "lucide-react";
import { SearchX } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { CatalogFilter } from "@/components/CatalogFilter";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";

interface Props<Item> {
  title: string;
  query: { isPending: boolean; error: unknown; refetch: () => unknown; data: { items: Item[] } | undefined };
  isRetired: (item: Item) => boolean;
  filter: (items: Item[], text: string, retired: boolean) => Item[];
  count: (matches: number) => string;
  /** The empty state of a catalogue without entries. */
  none: { icon: LucideIcon; title: string; text: string; action?: ReactNode };
  /** The texts of a search without matches: with retired entries hidden, and with all entries. */
  unmatched: { used: string; any: string };
  children: (matches: readonly Item[]) => ReactNode;
  /** Below the list. */
  footer?: ReactNode;
}

/** A page with the searchable list of images or datasets. */
export function CatalogList<Item>({ title, query, isRetired, filter, count, none, unmatched, children, footer }: Props<Item>) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [retired, setRetired] = useState(false);
  const items = query.data?.items;
  const matches = items && filter(items, text, retired);
  const hasRetired = items?.some(isRetired) ?? false;
  return (
    <>
      <PageTitle title={title} />
      {items && items.length > 0 && (
        <CatalogFilter text={text} onText={setText} retired={hasRetired ? retired : null} onRetired={setRetired} count={count(matches?.length ?? 0)} />
      )}
      <QueryCard
        query={query}
        items={matches}
        rows={4}
        empty={
          items?.length === 0 ? (
            <EmptyState icon={none.icon} title={none.title} action={none.action}>
              {none.text}
            </EmptyState>
          ) : (
            <EmptyState icon={SearchX} title={t("No matches")}>
              {hasRetired && !retired ? unmatched.used : unmatched.any}
            </EmptyState>
          )
        }
      >
        {children}
      </QueryCard>
      {matches !== undefined && matches.length > 0 && footer}
    </>
  );
}
