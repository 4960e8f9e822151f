import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { type ListQuery, QueryContent } from "@/components/QueryContent";
import classes from "./QueryCard.module.css";

/** A query of a list, paginated or not. */
interface Query extends ListQuery {
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
      <QueryContent query={query} items={items} rows={rows} empty={empty}>
        {children}
      </QueryContent>
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
