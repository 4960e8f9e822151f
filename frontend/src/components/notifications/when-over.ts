import type { Delivery } from "@/api/notifications";

const LOOK_EVERY_MS = 700;
const MOST_LOOKS = 45;

/** The delivery once it was sent or given up, or as it is after half a minute. */
export async function whenOver(sent: Delivery, fetchAll: () => Promise<Delivery[]>): Promise<Delivery> {
  let now = sent;
  for (let look = 0; look < MOST_LOOKS && now.state === "waiting"; look += 1) {
    await new Promise((resolve) => window.setTimeout(resolve, LOOK_EVERY_MS));
    now = (await fetchAll()).find((each) => each.id === sent.id) ?? now;
  }
  return now;
}
