import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { PageError } from "@/components/PageError";
import { accountQuery } from "./account";
import { PasswordCard } from "./PasswordCard";
import { SecondFactorCard } from "./SecondFactorCard";
import classes from "./Account.module.css";

export function SecurityPage() {
  const query = useQuery(accountQuery);
  if (query.isPending) return <Skeleton h={420} maw={720} radius="md" />;
  if (query.data === undefined) return <PageError error={query.error} onRetry={() => query.refetch()} />;
  return (
    <div className={classes.cards}>
      <PasswordCard account={query.data} />
      <SecondFactorCard factor={query.data.second_factor} />
    </div>
  );
}
