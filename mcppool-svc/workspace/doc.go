// Package workspace is the MCP server that Pawl brings along: five read-only
// tools (list_directory, read_file, get_file_info, search_files, search_code)
// over one folder. It is confined to that folder by handle (os.Root), never by
// comparing path strings: ".." and absolute paths outside are refused, and a
// symbolic link that leaves the folder is an error where it is named and is
// passed over in a search. The same server runs over stdio, for any MCP
// client, and in process, for the pool.
//
// Each tool is one file in definitions/, as tools/list shows it. Every answer is
// bounded: read_file by 1 MiB, a walk by 1,000,000 entries and 128 levels,
// search_code by 8 MiB a file; what was left out is said in the answer. Searches
// and recursive listings do not follow links and do not enter .git and
// node_modules; nothing else is ignored. Paths are cleaned as text before they
// are resolved, so "link/.." is the folder that holds the link.
//
// It must not know users, permissions, gRPC or the pool: the program that starts it
// decides which folder may be seen by whom.
package workspace
