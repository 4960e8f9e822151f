import { TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Search } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { Modal } from "@/components/Modal";
import { type Command, useCommands } from "@/shell/use-commands";
import classes from "./Palette.module.css";

interface Props {
  onClose: () => void;
  onHelp: () => void;
}

/** The command palette: pages, templates, the user's sessions and jobs, settings. */
export function Palette({ onClose, onHelp }: Props) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [query] = useDebouncedValue(text, 150);
  const { groups, searching } = useCommands(text, query, onHelp);
  const commands = groups.flatMap((group) => group.commands);
  const [highlighted, setHighlighted] = useState(0);
  const at = Math.min(highlighted, commands.length - 1);
  const id = useId();
  const option = (index: number) => `${id}-option-${index}`;
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [at]);

  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    command.run();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const count = commands.length;
    if (event.key === "ArrowDown") setHighlighted((at + 1) % Math.max(1, count));
    else if (event.key === "ArrowUp") setHighlighted((at - 1 + count) % Math.max(1, count));
    else if (event.key === "Enter") run(commands[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Modal opened onClose={onClose} centered={false} yOffset="10vh" size={600} padding={0} withCloseButton={false} attributes={{ content: { "aria-label": t("Search and commands") } }}>
      <TextInput
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setHighlighted(0);
        }}
        onKeyDown={onKey}
        placeholder={t("Search pages, templates, sessions and jobs…")}
        aria-label={t("Search and commands")}
        role="combobox"
        aria-expanded
        aria-autocomplete="list"
        aria-controls={`${id}-list`}
        aria-activedescendant={commands.length > 0 ? option(at) : undefined}
        leftSection={<Search size={18} aria-hidden />}
        leftSectionWidth={48}
        variant="unstyled"
        size="lg"
        className={classes.field}
        data-autofocus
        data-testid="palette"
      />
      <div id={`${id}-list`} role="listbox" aria-label={t("Results")} className={classes.list} ref={list}>
        {groups.map((group) => (
          <div key={group.label} role="group" aria-label={group.label}>
            <div className={classes.group} aria-hidden>
              {group.label}
            </div>
            {group.commands.map((command) => {
              const index = commands.indexOf(command);
              return (
                // The field keeps the focus and handles the keys; the mouse is an alternative.
                // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
                <div
                  key={command.key}
                  id={option(index)}
                  role="option"
                  aria-selected={index === at}
                  className={classes.option}
                  onPointerMove={() => setHighlighted(index)}
                  onClick={() => run(command)}
                >
                  <span className={classes.icon} aria-hidden>
                    {command.icon}
                  </span>
                  <span className="truncate">{command.label}</span>
                  {command.note && <span className={`${classes.note ?? ""} truncate`}>{command.note}</span>}
                </div>
              );
            })}
          </div>
        ))}
      </div>
      <div role="status" className={commands.length === 0 ? classes.none : "visually-hidden"}>
        {commands.length > 0
          ? t("{{count}} results", { count: commands.length })
          : searching
            ? t("Searching…")
            : t("No results.")}
      </div>
    </Modal>
  );
}
