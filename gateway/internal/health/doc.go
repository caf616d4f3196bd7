// Package health answers /healthz (the process lives) and /readyz (the services behind it answer), for load balancers
// and for people. It must not know what the services do.
package health
