import { Button, Indicator, NumberInput, Popover, SegmentedControl, Select, SimpleGrid, Switch, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Search, SlidersHorizontal } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { templatesQuery } from "@/api/queries";
import type { JobFilters } from "@/lib/job-filters";
import { MORE, moreCount, period } from "@/lib/job-views";
import { STATE_GROUPS } from "@/lib/states";
import classes from "@/components/Jobs.module.css";

interface Props {
  filters: JobFilters;
  projects: readonly string[];
  onChange: (change: JobFilters) => void;
  /** Whether to include the switch for the jobs of all users. */
  allUsersSwitch?: boolean;
  children?: ReactNode;
}

const TYPING_MS = 250;

export function JobFilterBar({ filters, projects, onChange, allUsersSwitch = true, children }: Props) {
  const { t } = useTranslation();
  return (
    <div className={classes.filters} role="search">
      <DebouncedInput
        className={classes.search ?? ""}
        label={t("Search by name")}
        search
        value={filters.q ?? ""}
        onChange={(q) => onChange({ q })}
        testId="jobs-search"
      />
      <Select
        aria-label={t("State")}
        placeholder={t("Any state")}
        clearable
        w={188}
        data={STATE_GROUPS.map(({ value, label }) => ({ value, label: t(label) }))}
        value={filters.state ?? null}
        onChange={(state) => onChange({ state: state ?? undefined })}
        data-testid="jobs-state"
      />
      <SegmentedControl
        aria-label={t("Type")}
        data={[
          { value: "any", label: t("All") },
          { value: "job", label: t("Jobs") },
          { value: "session", label: t("Sessions") },
        ]}
        value={filters.type ?? "any"}
        onChange={(type) => onChange({ type: type === "any" ? undefined : type })}
      />
      <MoreFilters filters={filters} projects={projects} onChange={onChange} />
      {allUsersSwitch && (
        <Switch
          label={t("All users")}
          checked={filters.all === true}
          onChange={(event) => onChange({ all: event.currentTarget.checked })}
          data-testid="jobs-all"
        />
      )}
      {children}
    </div>
  );
}

function MoreFilters({ filters, projects, onChange }: Omit<Props, "children" | "allUsersSwitch">) {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const activeCount = moreCount(filters);
  const days = { today: t("Today"), week: t("7 days"), month: t("30 days"), year: t("This year"), "last-year": t("Last year") } as const;
  return (
    <Popover position="bottom-start" shadow="md" width={380} trapFocus>
      <Indicator label={activeCount} size={17} disabled={activeCount === 0}>
        <Popover.Target>
          <Button variant="default" leftSection={<SlidersHorizontal size={16} />} data-testid="jobs-more">
            {t("Filter")}
          </Button>
        </Popover.Target>
      </Indicator>
      <Popover.Dropdown>
        <SimpleGrid cols={2} spacing="sm" verticalSpacing="xs">
          <Select
            label={t("Template")}
            clearable
            data={templates.map(({ name, title }) => ({ value: name, label: title }))}
            value={filters.template ?? null}
            onChange={(template) => onChange({ template: template ?? undefined })}
            comboboxProps={{ withinPortal: false }}
          />
          <Select
            label={t("Project")}
            clearable
            data={[...projects]}
            value={filters.project ?? null}
            onChange={(project) => onChange({ project: project ?? undefined })}
            comboboxProps={{ withinPortal: false }}
          />
          <DebouncedInput label={t("Owner")} value={filters.owner ?? ""} onChange={(owner) => onChange({ owner: owner || undefined, ...(owner ? { all: true } : {}) })} />
          <DebouncedInput label={t("Image")} value={filters.image ?? ""} onChange={(image) => onChange({ image: image || undefined })} />
          <DebouncedInput label={t("Node")} value={filters.node ?? ""} onChange={(node) => onChange({ node: node || undefined })} />
          <DebouncedInput label={t("Partition")} value={filters.partition ?? ""} onChange={(partition) => onChange({ partition: partition || undefined })} />
          <DebouncedInput label={t("GPU type")} value={filters.gpu ?? ""} onChange={(gpu) => onChange({ gpu: gpu || undefined })} />
          <NumberInput
            label={t("Minimum GPUs")}
            min={0}
            value={filters.gpus ?? ""}
            onChange={(value) => onChange({ gpus: typeof value === "number" ? value : undefined })}
          />
          <Select
            label={t("Array jobs")}
            placeholder={t("Any")}
            clearable
            data={[
              { value: "yes", label: t("Array jobs only") },
              { value: "no", label: t("Exclude array jobs") },
            ]}
            value={filters.array === undefined ? null : filters.array ? "yes" : "no"}
            onChange={(value) => onChange({ array: value === null ? undefined : value === "yes" })}
            comboboxProps={{ withinPortal: false }}
          />
          <Select
            label={t("Submitted")}
            placeholder={t("Any")}
            clearable
            data={[
              { value: "platform", label: t("Through the platform") },
              { value: "outside", label: t("With Slurm commands, such as sbatch") },
            ]}
            value={filters.origin ?? null}
            onChange={(origin) => onChange({ origin: origin ?? undefined })}
            comboboxProps={{ withinPortal: false }}
            data-testid="jobs-origin"
          />
          <TextInput type="date" label={t("Created from")} value={filters.from ?? ""} onChange={(event) => onChange({ from: event.currentTarget.value || undefined })} />
          <TextInput type="date" label={t("Created until")} value={filters.to ?? ""} onChange={(event) => onChange({ to: event.currentTarget.value || undefined })} />
          <TextInput type="datetime-local" label={t("Running at")} value={filters.at ?? ""} onChange={(event) => onChange({ at: event.currentTarget.value.slice(0, 16) || undefined })} />
        </SimpleGrid>
        <div className={classes.periods}>
          {(Object.keys(days) as (keyof typeof days)[]).map((name) => (
            <Button key={name} size="compact-xs" variant="light" onClick={() => onChange(period(name, new Date()))}>
              {days[name]}
            </Button>
          ))}
          <Button
            size="compact-xs"
            variant="subtle"
            ml="auto"
            disabled={activeCount === 0}
            onClick={() => onChange(Object.fromEntries(MORE.map((name) => [name, undefined])))}
          >
            {t("Clear")}
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

interface DebouncedInputProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  /** A search field: the label is its placeholder. */
  search?: boolean;
  className?: string;
  testId?: string;
}

/** A text field that reports its value after a pause in typing. */
function DebouncedInput({ label, value, onChange, search = false, className = "", testId }: DebouncedInputProps) {
  const [text, setText] = useState(value);
  const reported = useRef(value);
  const report = useDebouncedCallback((next: string) => {
    reported.current = next;
    onChange(next);
  }, TYPING_MS);
  useEffect(() => {
    // Back and forward change the URL; the field follows, except while the user types.
    if (value !== reported.current) {
      reported.current = value;
      setText(value);
    }
  }, [value]);
  return (
    <TextInput
      className={className}
      {...(search ? { "aria-label": label, placeholder: label, leftSection: <Search size={16} />, type: "search" } : { label })}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        report(event.currentTarget.value.trim());
      }}
      data-testid={testId}
    />
  );
}
