import { Kbd, Modal, Switch } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Fragment, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { pagesFor } from "@/lib/pages";
import { setSingleKeys, singleKeys } from "@/shell/use-shortcuts";
import classes from "./KeyboardHelp.module.css";

/** Which keys do what. */
export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const [letters, setLetters] = useState(singleKeys);
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Keyboard")}</strong>}>
      <dl className={classes.keys}>
        <Row keys={["Ctrl", "K"]}>{t("Search and commands")}</Row>
        {letters && (
          <>
            <Row keys={["/"]}>{t("Search and commands")}</Row>
            <Row keys={["?"]}>{t("This help")}</Row>
            {pagesFor(me.user.role).map(
              ({ to, label, letter }) =>
                letter !== undefined && (
                  <Row key={to} keys={["g", letter]}>
                    {t("Go to {{page}}", { page: t(label) })}
                  </Row>
                ),
            )}
            <Row keys={["j", "k"]}>{t("Down and up in the table of jobs")}</Row>
            <Row keys={["x"]}>{t("Choose the row in the table of jobs; Enter opens it")}</Row>
            <Row keys={["n", "N"]}>{t("Next and previous match in a log")}</Row>
            <Row keys={["e"]}>{t("To the error in a log")}</Row>
          </>
        )}
        <Row keys={["Esc"]}>{t("Close a dialog or menu")}</Row>
        <Row keys={["Tab"]}>{t("To the next thing that can be used; the first one skips to the content")}</Row>
      </dl>
      <Switch
        mt="md"
        checked={letters}
        onChange={(event) => {
          setSingleKeys(event.currentTarget.checked);
          setLetters(event.currentTarget.checked);
        }}
        label={t("Shortcuts of a single letter")}
      />
    </Modal>
  );
}

function Row({ keys, children }: { keys: string[]; children: ReactNode }) {
  return (
    <div>
      <dt>
        {keys.map((name, index) => (
          <Fragment key={name}>
            {index > 0 && " "}
            <Kbd>{name}</Kbd>
          </Fragment>
        ))}
      </dt>
      <dd>{children}</dd>
    </div>
  );
}
