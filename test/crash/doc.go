// Package crash kills Pawl's processes (SIGKILL) at every point at which it matters, and at random ones, starts them
// again, and checks that nothing was lost and nothing repeated (DESIGN 4). Its tests drive package victim, which is the
// services as they are; they know tasks only by what the API says of them, and calls by what the tool wrote.
package crash
