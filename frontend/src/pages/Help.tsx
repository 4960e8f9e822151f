import { Anchor, Title } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { BookOpen } from "lucide-react";
import { useEffect } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { CodeText } from "@/components/CodeText";
import { PageTitle } from "@/components/PageTitle";
import { ANSWERS } from "@/lib/help";
import classes from "./Help.module.css";

/** Answers to frequent questions, with a link to where each is decided, and the site's documentation. */
export function HelpPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const chosen = useRouterState({ select: (state) => state.location.hash });
  useEffect(() => {
    document.getElementById(chosen)?.scrollIntoView({ block: "center" });
  }, [chosen]);
  const documentation = me.platform.documentation_url;
  return (
    <>
      <PageTitle title={t("Help")}>
        {documentation !== null && (
          <Anchor href={documentation} target="_blank" rel="noreferrer">
            <BookOpen size={15} aria-hidden style={{ verticalAlign: "-2px" }} /> {t("Documentation")}
          </Anchor>
        )}
      </PageTitle>
      <div className={classes.answers}>
        {ANSWERS.map(({ id, question, text, link: { label, ...link } }) => (
          <section key={id} id={id} className={`card ${classes.answer ?? ""}`} data-chosen={id === chosen || undefined} aria-labelledby={`${id}-question`} data-testid={`help-${id}`}>
            <Title order={2} size="h5" id={`${id}-question`}>
              {t(question)}
            </Title>
            <p><CodeText>{t(text)}</CodeText></p>
            <Link {...link} className={classes.link}>
              {t(label)}
            </Link>
          </section>
        ))}
      </div>
    </>
  );
}
