import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { BookOpen, CircleQuestionMark, Keyboard, Languages, LogOut, Orbit, SquareTerminal } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { findJobsQuery, meQuery, templatesQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { LANGUAGES } from "@/i18n";
import { openInNewTab } from "@/hooks/use-job-actions";
import { notifyProblem } from "@/components/notify";
import { nameOfJob } from "@/lib/describe";
import { ANSWERS } from "@/lib/help";
import { shortId } from "@/lib/id";
import { pagesFor } from "@/lib/pages";
import { lookOf } from "@/lib/states";
import { SCHEMES } from "@/shell/schemes";
import { useAppearance } from "@/shell/use-appearance";
import { useLogout } from "@/hooks/use-logout";

export interface Command {
  key: string;
  label: string;
  note?: string | undefined;
  /** Additional search words. */
  words?: string;
  icon: ReactNode;
  run: () => void;
}

interface Group {
  label: string;
  commands: Command[];
}

/** The commands that match `text`; jobs match `query`, the debounced text. */
export function useCommands(text: string, query: string, onHelp: () => void): { groups: Group[]; searching: boolean } {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const templates = useQuery(templatesQuery);
  const jobs = useQuery({ ...findJobsQuery(query.trim(), me.user.name), enabled: query.trim() !== "" });
  const navigate = useNavigate();
  const help = useHelp(me.platform.documentation_url);
  const groups: Group[] = [
    { label: t("Sessions and jobs"), commands: useJobCommands(text.trim() === "" ? [] : (jobs.data ?? [])) },
    {
      label: t("Pages"),
      commands: matching(
        text,
        pagesFor(me.user.role).map(({ to, label, words, icon: Icon }) => ({
          key: to,
          label: t(label),
          words: words === undefined ? label : `${label} ${words} ${t(words)}`,
          icon: <Icon size={17} />,
          run: () => void navigate({ to }),
        })),
      ),
    },
    {
      label: t("Launch"),
      commands: matching(
        text,
        (templates.data?.items ?? []).map((template) => ({
          key: `launch-${template.name}`,
          label: t("Launch {{template}}", { template: template.title }),
          words: `${template.name} ${template.description}`,
          icon: template.type === "session" ? <Orbit size={17} /> : <SquareTerminal size={17} />,
          run: () => void navigate({ to: "/", search: { launch: template.name } }),
        })),
      ),
    },
    { label: t("Help"), commands: text.trim() === "" ? [] : matching(text, help) },
    { label: t("Settings"), commands: matching(text, useSettings(onHelp)) },
  ];
  return { groups: groups.filter(({ commands }) => commands.length > 0), searching: jobs.isFetching || text !== query };
}

function useJobCommands(jobs: readonly Job[]): Command[] {
  const { t } = useTranslation();
  const navigate = useNavigate();
  return jobs.map((job) => {
    const ready = job.actions.includes("open");
    return {
      key: job.id,
      label: ready ? t("Open {{name}}", { name: nameOfJob(job) }) : nameOfJob(job),
      note: `${lookOf(job.state, { session: job.type === "session" }).label} · ${shortId(job)}`,
      icon: job.type === "session" ? <Orbit size={17} /> : <SquareTerminal size={17} />,
      run: () => {
        if (!ready) void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
        else openInNewTab(job).catch((error: unknown) => notifyProblem(t("{{name}} was not opened", { name: job.name }), error));
      },
    };
  });
}

/** Answers of the help page, and the site's documentation. */
function useHelp(documentation: string | null): Command[] {
  const { t } = useTranslation();
  const navigate = useNavigate();
  return [
    ...ANSWERS.map(({ id, question, words }) => ({
      key: `help-${id}`,
      label: t(question),
      words: words === undefined ? question : `${question} ${words} ${t(words)}`,
      icon: <CircleQuestionMark size={17} />,
      run: () => void navigate({ to: "/help", hash: id }),
    })),
    ...(documentation === null
      ? []
      : [{ key: "documentation", label: t("Documentation"), words: "documentation manual", icon: <BookOpen size={17} />, run: () => void window.open(documentation, "_blank", "noreferrer") }]),
  ];
}

function useSettings(onHelp: () => void): Command[] {
  const { t } = useTranslation();
  const { setScheme, setLanguage } = useAppearance();
  const logout = useLogout();
  return [
    ...SCHEMES.map(({ value, label, icon: Icon }) => ({
      key: `scheme-${value}`,
      label: t("Theme: {{scheme}}", { scheme: t(label) }),
      words: "theme dark light",
      icon: <Icon size={17} />,
      run: () => setScheme(value),
    })),
    ...LANGUAGES.map(({ value, label }) => ({
      key: `language-${value}`,
      label: t("Language: {{language}}", { language: label }),
      words: "language Sprache",
      icon: <Languages size={17} />,
      run: () => setLanguage(value),
    })),
    { key: "keyboard", label: t("Keyboard shortcuts"), words: "shortcuts ?", icon: <Keyboard size={17} />, run: onHelp },
    { key: "logout", label: t("Log out"), words: "logout", icon: <LogOut size={17} />, run: () => void logout() },
  ];
}

/** The commands that contain every word of the text; those that begin with it are first. */
export function matching(text: string, commands: readonly Command[]): Command[] {
  const searchWords = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = commands.filter(({ label, words }) => {
    const searchable = `${label} ${words ?? ""}`.toLowerCase();
    return searchWords.every((word) => searchable.includes(word));
  });
  const rank = ({ label }: Command) => (label.toLowerCase().startsWith(text.trim().toLowerCase()) ? 0 : 1);
  return matches.sort((a, b) => rank(a) - rank(b));
}
