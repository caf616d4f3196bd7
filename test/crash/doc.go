// Package crash kills Pawl's processes (SIGKILL) at every relevant point, and at random ones, starts them
// again, and checks that nothing was lost and nothing repeated. Its tests drive program victim, which has
// the real services; they see tasks only through the API, and calls only by the lines that the tool wrote.
package crash
