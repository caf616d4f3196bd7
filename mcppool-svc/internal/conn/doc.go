// Package conn is the pool of connections. Usually there is one connection per server, user and configuration, which all sessions and calls
// of that user share. A server's isolation may instead give each session its own connection, or all users the same one, and exclusive
// calls get further connections (see Config.Exclusive). A connection is made when first needed, closed when unused, and replaced when it
// dies or its configuration changes. The number of connections is bounded. The package must not know the protocol and the requests.
package conn
