// Package workspace is Pawl's own MCP server over one folder: five tools that only read
// (list_directory, read_file, get_file_info, search_files, search_code) and, as Options allow,
// tools that change files and run programs. An os.Root confines all access to that folder. A path that leaves the
// folder, by "..", as an absolute path or over a symbolic link, is refused. The
// same server runs over stdio, for any MCP client, and in process, for the pool.
//
// Each file in definitions/ is one tool, as tools/list shows it. Every result is
// bounded: read_file by 1 MiB, a walk by 1,000,000 entries and 128 levels,
// search_code by 8 MiB a file; the result says if something was left out.
// Searches and recursive listings do not follow links and do not enter .git and
// node_modules; nothing else is ignored. Paths are cleaned as text before they
// are resolved, so "link/.." is the folder that holds the link.
//
// Tools that change files plan first: they read, check and return edits. Server.change
// commits a plan under a lock of the folder: it saves backups, records the changes in
// .pawl, and replaces files by renaming. The record lets the next change undo one that a
// crash interrupted, and answers a call that is repeated with its idempotency key. Such
// tools follow no symbolic links, so a file has one path.
//
// Programs run in the sandbox of package sandbox, with a temporary home folder that is removed
// with the server.
//
// It must not know users, permissions, gRPC or the pool: the program that starts it
// decides which users may see which folder.
package workspace
