import { Skeleton } from "@mantine/core";

export function PanelSkeleton({ rows }: { rows: number }) {
  return (
    <div aria-busy="true">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} h={18} mb={14} />
      ))}
    </div>
  );
}
