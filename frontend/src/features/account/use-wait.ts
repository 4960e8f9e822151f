import { useEffect, useState } from "react";
import { ApiProblem } from "@/api/problem";

/** Seconds until the next permitted attempt after HTTP 429, counting down to zero. */
export function useWait(error: unknown): number {
  const problem = error instanceof ApiProblem && error.status === 429 ? error : null;
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (problem === null) return undefined;
    const until = Date.now() + Math.max(1, problem.retryAfterS ?? 30) * 1000;
    const tick = () => setLeft(Math.max(0, Math.ceil((until - Date.now()) / 1000)));
    tick();
    const timer = window.setInterval(tick, 500);
    return () => {
      window.clearInterval(timer);
      setLeft(0);
    };
  }, [problem]);
  return left;
}
