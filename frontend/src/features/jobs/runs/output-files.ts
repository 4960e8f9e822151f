/** The address below the API's root of a file in the folder of a job. */
export function outputAddress(jobId: string, path: string): string {
  return `/files/jobs/${jobId}/workdir/${path.split("/").map(encodeURIComponent).join("/")}`;
}
