package test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A service does not start in a data folder that it cannot write, and says what to do.
func TestUnwritableDataFolder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	protected := func(t *testing.T, dir string) []string {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			return nil
		}
		return []string{"setpriv", "--bounding-set", "-all"} // permissions also count for root then
	}
	readOnly := func(t *testing.T, dir string) []string {
		if out, err := exec.CommandContext(ctx, "unshare", "-Urm", "true").CombinedOutput(); err != nil {
			t.Skipf("no mount namespace: %v %s", err, out)
		}
		return []string{"unshare", "-Urm", "sh", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`, dir}
	}
	for name, program := range map[string][]string{
		"pawl":         {binaries.Pawl, "up", "--http", "none"},
		"executor-svc": {binaries.Executor},
		"mcppool-svc":  {binaries.Pool},
	} {
		for how, prepare := range map[string]func(*testing.T, string) []string{"permission denied": protected, "read-only file system": readOnly} {
			t.Run(name+"/"+strings.ReplaceAll(how, " ", "-"), func(t *testing.T) {
				dir := t.TempDir()
				args := append(append(prepare(t, dir), program...), "--data", dir, "--grpc", "127.0.0.1:0")
				out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
				for _, want := range []string{"opening " + dir, how, "must be writable"} {
					if err == nil || !strings.Contains(string(out), want) {
						t.Errorf("%v, without %q: %s", err, want, out)
					}
				}
			})
		}
	}
}
