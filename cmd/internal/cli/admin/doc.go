// Package admin has the commands for agents, models, API keys and the journal, and the one that runs the server.
package admin
