import type { ComponentProps } from "react";
import { ReleaseConfirm } from "@/features/sessions/ranks/ReleaseConfirm";
import { StopConfirm } from "@/features/sessions/SessionCard";

/** Asks before a job or session is ended, or the ranks of a session are released. */
export function EndConfirm(props: ComponentProps<typeof StopConfirm>) {
  const { job, opened, stop, onClose } = props;
  if (job.session_id === null) return <StopConfirm {...props} />;
  return <ReleaseConfirm group={job} opened={opened} busy={stop.isPending} onClose={onClose} onConfirm={() => stop.mutate(undefined, { onSettled: onClose })} />;
}
