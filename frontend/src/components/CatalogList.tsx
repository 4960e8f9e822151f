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
  count: (found: number) => string;
  /** There is none at all. */
  none: { icon: LucideIcon; title: string; text: string; action?: ReactNode };
  /** What is said when no one in use has the words, with and without the retired ones. */
  unmatched: { used: string; any: string };
  children: (found: readonly Item[]) => ReactNode;
  /** Stands below the list. */
  footer?: ReactNode;
}

/** The page of what jobs can use, with its search: images or datasets. */
export function CatalogList<Item>({ title, query, isRetired, filter, count, none, unmatched, children, footer }: Props<Item>) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [retired, setRetired] = useState(false);
  const items = query.data?.items;
  const found = items && filter(items, text, retired);
  const hasRetired = items?.some(isRetired) ?? false;
  return (
    <>
      <PageTitle title={title} />
      {items && items.length > 0 && (
        <CatalogFilter text={text} onText={setText} retired={hasRetired ? retired : null} onRetired={setRetired} count={count(found?.length ?? 0)} />
      )}
      <QueryCard
        query={query}
        items={found}
        rows={4}
        empty={
          items?.length === 0 ? (
            <EmptyState icon={none.icon} title={none.title} action={none.action}>
              {none.text}
            </EmptyState>
          ) : (
            <EmptyState icon={SearchX} title={t("Nothing matches")}>
              {hasRetired && !retired ? unmatched.used : unmatched.any}
            </EmptyState>
          )
        }
      >
        {children}
      </QueryCard>
      {found !== undefined && found.length > 0 && footer}
    </>
  );
}
