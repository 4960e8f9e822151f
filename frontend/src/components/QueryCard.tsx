import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import classes from "./QueryCard.module.css";

/** What a list needs to know of its query, whether it comes at once or in pages. */
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
  /** Undefined as long as there is no answer. */
  items: readonly Item[] | undefined;
  /** So many lines are drawn while it loads. */
  rows?: number;
  /** What stands there when there is nothing. */
  empty: ReactNode;
  /** The list asks for its further pages by itself: a button is needed only when one failed. */
  scrolls?: boolean;
  children: (items: readonly Item[]) => ReactNode;
}

/** A card with a list in it, in all the states that a list has. */
export function QueryCard<Item>({ query, items, rows = 8, empty, scrolls = false, children }: Props<Item>) {
  const { t } = useTranslation();
  const failed = query.isFetchNextPageError === true;
  return (
    <div className={`card ${classes.card ?? ""}`} data-old={query.isPlaceholderData === true || undefined}>
      {query.isPending && <TableSkeleton rows={rows} />}
      {!query.isPending && items === undefined && <PageError error={query.error} onRetry={() => void query.refetch()} />}
      {items !== undefined && (items.length === 0 ? empty : children(items))}
      {(scrolls ? failed : query.hasNextPage === true) && (
        <div className={classes.more}>
          <Button variant="default" size="compact-md" loading={query.isFetchingNextPage === true} onClick={() => void query.fetchNextPage?.()}>
            {failed ? t("That failed; try again") : t("Show more")}
          </Button>
        </div>
      )}
    </div>
  );
}
