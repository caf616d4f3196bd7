// Package crash kills Pawl's processes (SIGKILL) at chosen points of a task, and at random times, starts them
// again, and checks that nothing was lost and nothing repeated. Its tests drive program victim, which has
// the real services; they see tasks only through the API, and calls only by the lines that the tool wrote.
package crash
