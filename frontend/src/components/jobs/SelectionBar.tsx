import { Anchor, Button, Group, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GitCompareArrows, Square, X } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cancelJobs, cancelMatching, countLive } from "@/api/actions";
import { keys } from "@/api/queries";
import type { CancelResults, Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";
import type { JobSearch } from "@/lib/job-filters";
import { isTerminal } from "@/lib/states";
import classes from "@/pages/Jobs.module.css";

/** As many as the platform ends by one request. */
const MOST = 1_000;

interface Props {
  jobs: readonly Job[];
  /** All that match, fetched or not. */
  total: number;
  search: JobSearch;
  everything: boolean;
  onEverything: () => void;
  onClear: () => void;
}

type Wish = { kind: "ids"; ids: string[]; count: number } | { kind: "matching"; count: number };

/** What can be done with what was chosen. */
export function SelectionBar({ jobs, total, search, everything, onEverything, onClear }: Props) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [wish, setWish] = useState<Wish | null>(null);
  const live = jobs.filter((job) => !isTerminal(job.state) && !job.cancel_requested);
  const [first, second] = jobs;

  const ask = useMutation({
    mutationFn: () => countLive(search),
    onSuccess: (count) => setWish({ kind: "matching", count }),
    onError: (error) => notifyProblem(t("Nothing was cancelled"), error),
  });
  const cancel = useMutation({
    mutationFn: (wanted: Wish) => (wanted.kind === "ids" ? cancelJobs(wanted.ids) : cancelMatching(search, wanted.count)),
    onSuccess: (answer) => {
      report(answer);
      onClear();
    },
    onError: (error) => notifyProblem(t("Nothing was cancelled"), error),
    onSettled: () => {
      setWish(null);
      void cache.invalidateQueries({ queryKey: keys.lists });
    },
  });
  const report = ({ asked, items }: CancelResults) => {
    const refused = items.filter((item) => item.outcome === "not_allowed" || item.outcome === "not_found");
    if (refused[0]) notifyProblem(t("{{count}} were not cancelled", { count: refused.length }), new Error(refused[0].reason ?? ""));
    if (asked > 0) notifyDone(t("{{count}} jobs end", { count: asked }));
  };
  const start = () => (everything ? ask.mutate() : setWish({ kind: "ids", ids: live.map((job) => job.id), count: live.length }));
  const tooMany = wish !== null && wish.count > MOST;
  return (
    <div className={classes.selection} role="region" aria-label={t("What was chosen")} data-testid="jobs-selection">
      <Text size="sm" fw={600} role="status">
        {everything ? t("All {{count}} that match are chosen", { count: total }) : t("{{count}} chosen", { count: jobs.length })}
      </Text>
      {!everything && total > jobs.length && jobs.length > 1 && (
        <Anchor component="button" type="button" size="sm" onClick={onEverything}>
          {t("Choose all {{count}} that match", { count: total })}
        </Anchor>
      )}
      <Group gap="xs" ml="auto">
        {!everything && jobs.length === 2 && first && second && (
          <Button
            renderRoot={(props) => <Link {...props} to={`/compare?a=${first.id}&b=${second.id}` as "/"} />}
            size="xs"
            variant="default"
            leftSection={<GitCompareArrows size={15} />}
            data-testid="jobs-compare"
          >
            {t("Compare")}
          </Button>
        )}
        <Button
          size="xs"
          color="red"
          variant="light"
          leftSection={<Square size={13} />}
          disabled={!everything && live.length === 0}
          loading={ask.isPending}
          onClick={start}
          data-testid="jobs-cancel"
        >
          {t("Cancel")}
        </Button>
        <Button size="xs" variant="subtle" color="gray" leftSection={<X size={15} />} onClick={onClear}>
          {t("Let go")}
        </Button>
      </Group>
      <Confirm
        opened={wish !== null}
        title={t("Cancel {{count}} jobs?", { count: wish?.count ?? 0 })}
        action={t("Cancel them")}
        keep={t("Keep them")}
        busy={cancel.isPending}
        onClose={() => setWish(null)}
        onConfirm={() => wish && (wish.count === 0 || tooMany ? setWish(null) : cancel.mutate(wish))}
      >
        {tooMany
          ? t("That is more than {{most}}, which is what one press may end. Narrow the filter first.", { most: MOST })
          : t("They end now. What they have written stays; the rest of their work is lost. Jobs that have ended, and those of others, are left as they are.")}
      </Confirm>
    </div>
  );
}
