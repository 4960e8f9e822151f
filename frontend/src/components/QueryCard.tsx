import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import classes from "./QueryCard.module.css";

/** The fields of a query that a list needs, paginated or not. */
interface Query {
  isPending: boolean;
  error: unknown;
  refetch: () => unknown;
  isPlaceholderData?: boolean;
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  isFetchNextPageError?: boolean;
  fetchNextPage?: () => unknown;
}

interface Props<Item> {
  query: Query;
  /** Undefined until the query has data. */
  items: readonly Item[] | undefined;
  /** Rows of the skeleton while it loads. */
  rows?: number;
  /** Content for an empty list. */
  empty: ReactNode;
  /** Whether the list fetches further pages by itself: a button appears only after a failure. */
  scrolls?: boolean;
  children: (items: readonly Item[]) => ReactNode;
}

/** A card with a list in all states of its query. */
export function QueryCard<Item>({ query, items, rows = 8, empty, scrolls = false, children }: Props<Item>) {
  const { t } = useTranslation();
  const failed = query.isFetchNextPageError === true;
  return (
    <div className={`card ${classes.card ?? ""}`} data-old={query.isPlaceholderData === true || undefined}>
      {query.isPending && <TableSkeleton rows={rows} />}
      {!query.isPending && items === undefined && <PageError error={query.error} onRetry={() => query.refetch()} />}
      {items !== undefined && (items.length === 0 ? empty : children(items))}
      {(scrolls ? failed : query.hasNextPage === true) && (
        <div className={classes.more}>
          <Button variant="default" size="compact-md" loading={query.isFetchingNextPage === true} onClick={() => void query.fetchNextPage?.()}>
            {failed ? t("Failed to load. Try again") : t("Show more")}
          </Button>
        </div>
      )}
    </div>
  );
}
