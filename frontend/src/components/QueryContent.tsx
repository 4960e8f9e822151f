import type { ReactNode } from "react";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";

/** The fields of a query that a list needs. */
export interface ListQuery {
  isPending: boolean;
  error: unknown;
  refetch: () => unknown;
}

interface Props<Item> {
  query: ListQuery;
  /** Undefined until the query has data. */
  items: readonly Item[] | undefined;
  /** Rows of the skeleton while it loads. */
  rows: number;
  /** Content for an empty list. */
  empty: ReactNode;
  /** Whether the error takes little room, as in a part of a card. */
  compact?: boolean;
  children: (items: readonly Item[]) => ReactNode;
}

/** A list, or in its place what tells that it loads, has failed or is empty. */
export function QueryContent<Item>({ query, items, rows, empty, compact = false, children }: Props<Item>) {
  if (query.isPending) return <TableSkeleton rows={rows} />;
  if (items === undefined) return <PageError compact={compact} error={query.error} onRetry={() => query.refetch()} />;
  return items.length === 0 ? empty : children(items);
}
