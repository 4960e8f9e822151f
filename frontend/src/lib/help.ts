/** Questions that the portal answers itself: the help page and the command palette. */
import type { LinkProps } from "@tanstack/react-router";
import { msg } from "@/i18n/msg";

export interface Answer {
  /** In the page's address. */
  id: string;
  question: string;
  text: string;
  /** Where to look or act. */
  link: Pick<LinkProps, "to" | "search"> & { label: string };
  /** Additional search words of the palette. */
  words?: string;
}

/** All texts are keys: `t(answer.question)`. */
export const ANSWERS: readonly Answer[] = [
  {
    id: "waiting",
    question: msg("Why is my job waiting?"),
    text: msg("The page of a queued job states the scheduler's reason, its position in the queue, the expected start, and what would help it start earlier. Most often the requested GPUs, CPUs or memory are in use."),
    link: { to: "/jobs", search: { state: "waiting" }, label: msg("Your pending jobs") },
    words: msg("pending queued queue start"),
  },
  {
    id: "failed",
    question: msg("Why did my job fail?"),
    text: msg("The page of the job states the reason, and its log contains the output of the program. Out of memory: the job used more memory than it had requested. Time limit: request a longer time limit and run it again."),
    link: { to: "/jobs", search: { state: "failed" }, label: msg("Your failed jobs") },
    words: msg("error exit code memory"),
  },
  {
    id: "ended",
    question: msg("Why did my session end?"),
    text: msg("A session ends at its time limit, or after a time without activity if the site or the session sets one. Files on disk are kept. Continue on its card starts it again with the notebooks that were open."),
    link: { to: "/jobs", search: { type: "session" }, label: msg("Your sessions") },
    words: msg("stopped time limit idle"),
  },
  {
    id: "longer",
    question: msg("How can I keep a session running longer?"),
    text: msg("Extend on the card of a running session adds time, up to the site's maximum. A notification announces the end in advance."),
    link: { to: "/", label: msg("Home") },
    words: msg("extend time limit"),
  },
  {
    id: "gpus",
    question: msg("When are GPUs free?"),
    text: msg("Home shows the free GPUs of each type and when more come free, based on the time limits of running jobs. The cluster page shows each node."),
    link: { to: "/cluster", label: msg("Cluster") },
    words: msg("nodes capacity"),
  },
  {
    id: "files",
    question: msg("Where are my files?"),
    text: msg("Jobs and sessions start in the home folder unless their form names another folder. Files there are kept when they end. Storage on Home shows how much space is used."),
    link: { to: "/", label: msg("Home") },
    words: msg("storage folder home quota"),
  },
  {
    id: "project",
    question: msg("How do I join a project?"),
    text: msg("A manager of the project adds members by name or invites them by a link. New projects are requested on the page of projects."),
    link: { to: "/projects", label: msg("Projects") },
    words: msg("members invitation"),
  },
  {
    id: "command-line",
    question: msg("How do I use the command line?"),
    text: msg("Create an access token and pass it to `aitne login URL --token -` on the other machine. `aitne --help` lists the commands."),
    link: { to: "/account/tokens", label: msg("Access tokens") },
    words: msg("API token terminal Python"),
  },
];
