/** A small moon on its tilted orbit. */
export function LogoMark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <circle cx="15" cy="17" r="8.5" fill="var(--mantine-color-indigo-6)" />
      <path d="M8.4 22.4a8.5 8.5 0 0 0 14.8-3.1 12 12 0 0 1-14.8 3.1Z" fill="var(--mantine-color-indigo-9)" opacity=".55" />
      <ellipse
        cx="15"
        cy="17"
        rx="14"
        ry="5.2"
        transform="rotate(-28 15 17)"
        fill="none"
        stroke="var(--mantine-color-indigo-4)"
        strokeWidth="1.8"
        strokeDasharray="43 20"
        strokeDashoffset="-3"
      />
      <circle cx="26.3" cy="8.6" r="3.6" fill="var(--mantine-color-moon-5)" />
    </svg>
  );
}

export function Wordmark({ title }: { title: string }) {
  return (
    <span style={{ display: "inline-flex", alignItems: "center", gap: 10, minWidth: 0 }}>
      <LogoMark />
      <span className="truncate" style={{ fontWeight: 680, fontSize: 18, letterSpacing: "-0.02em" }}>
        {title}
      </span>
    </span>
  );
}
