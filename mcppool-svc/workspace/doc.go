// Package workspace is Pawl's own MCP server: five read-only tools
// (list_directory, read_file, get_file_info, search_files, search_code) over one
// folder. An os.Root confines all access to that folder. A path that leaves the
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
// It must not know users, permissions, gRPC or the pool: the program that starts it
// decides which users may see which folder.
package workspace
