package discover

import "testing"

// The alias of the folder's server is replaced in every step of a playbook, also in branches; all other bytes stay.
func TestPlaybookNamesTheFoldersServer(t *testing.T) {
	const text = "steps:\n  - tool: workspace/read_file # workspace/x\n  - parallel:\n      - steps:\n        - {id: a, tool: \"workspace/list_directory\", input: {path: workspace/tool}}\n      - steps: [{tool: other/workspace}]\n"
	const want = "steps:\n  - tool: workspace-here/read_file # workspace/x\n  - parallel:\n      - steps:\n        - {id: a, tool: \"workspace-here/list_directory\", input: {path: workspace/tool}}\n      - steps: [{tool: other/workspace}]\n"
	if got := (Folder{id: "workspace-here"}).Playbook(text); got != want {
		t.Errorf("got\n%s", got)
	}
}
