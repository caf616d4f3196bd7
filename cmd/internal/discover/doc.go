// Package discover finds the server that a command talks to: the one that was named, the one that serves the data
// folder, the one on the default port, or one that is started inside this process. A Session finds it again when it
// goes away. It knows nothing of tasks.
package discover
