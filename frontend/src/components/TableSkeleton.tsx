import { Skeleton } from "@mantine/core";

export function TableSkeleton({ rows = 8 }: { rows?: number }) {
  return (
    <div style={{ padding: "16px 20px" }} aria-busy="true">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} h={16} my={18} w={`${92 - ((row * 13) % 30)}%`} />
      ))}
    </div>
  );
}
