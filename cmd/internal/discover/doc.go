// Package discover finds the server that a command talks to: the one that was named, the one that has the data folder, or one that it
// starts in this process. It finds the workspace server of the current folder too.
package discover
